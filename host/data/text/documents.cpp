#include "data/text/documents.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/error.hpp"
#include "base/text.hpp"
#include "data/text/text_stream.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

constexpr size_t piece_bytes = 1 << 20;

/// Splits a text that arrives in pieces at its separators, which may cross pieces. Without a separator the text is one
/// document.
class DocumentFinder {
 public:
  /// Adds the documents to `found`. `offset`: of the text in its file.
  DocumentFinder(const std::string& separator, int64_t offset, std::vector<TextRange>& found)
      : separator_(separator), offset_(offset), begin_(offset), found_(found) {}

  void take(std::string_view piece) {
    text_ += piece;
    size_t next = 0;
    for (size_t at; (at = next_separator(next)) != std::string::npos; next = at + separator_.size()) {
      look_at(next, at);
      end_document(at);
      begin_ = offset_ + int64_t(at + separator_.size());
      has_separator_ = true;
    }
    // The rest may be the start of a separator.
    const size_t open_end = separator_.empty() ? 0 : separator_.size() - 1;
    const size_t done = text_.size() - std::min(text_.size() - next, open_end);
    look_at(next, done);
    offset_ += int64_t(done);
    text_.erase(0, done);
  }

  void finish() {
    look_at(0, text_.size());
    end_document(text_.size());
  }

  bool has_separator() const { return has_separator_; }

 private:
  size_t next_separator(size_t from) const {
    return separator_.empty() ? std::string::npos : text_.find(separator_, from);
  }
  void look_at(size_t begin, size_t end) { blank_ = blank_ && text_.find_first_not_of(" \t\n\v\f\r", begin) >= end; }
  void end_document(size_t at) {
    if (!blank_) found_.push_back({begin_, offset_ + int64_t(at)});
    blank_ = true;
  }

  const std::string& separator_;
  std::string text_;   ///< the part of the text that is in memory
  int64_t offset_;     ///< of text_
  int64_t begin_;      ///< of the current document
  bool blank_ = true;  ///< whether the current document is blank so far
  bool has_separator_ = false;
  std::vector<TextRange>& found_;
};

struct FoundDocuments {
  std::vector<TextRange> documents;
  bool has_separator = false;
};

FoundDocuments find_documents(const fs::path& file, const std::string& separator, bool as_bytes) {
  TextStream in(file, as_bytes);
  if (separator.empty() && !in.is_json_lines()) {
    in.skip_to(std::numeric_limits<int64_t>::max());
    return {{{0, in.offset()}}, false};
  }
  std::string piece(piece_bytes, '\0');
  FoundDocuments found;
  while (in.next_text()) {
    DocumentFinder finder(separator, in.offset(), found.documents);
    while (const size_t got = in.read(piece.data(), piece_bytes)) finder.take({piece.data(), got});
    finder.finish();
    found.has_separator = found.has_separator || finder.has_separator();
  }
  return found;
}

/// Position after the last newline before the document's last `share`; nullopt if there is none.
std::optional<int64_t> line_end_before(const fs::path& file, const TextRange& document, double share, bool as_bytes) {
  const auto bytes = double(document.end - document.begin);
  const int64_t end = document.begin + int64_t(std::floor(bytes * (1 - share)));
  TextStream in(file, as_bytes);
  in.skip_to(document.begin);
  std::optional<int64_t> found;
  std::string piece(piece_bytes, '\0');
  while (in.offset() < end) {
    const int64_t begin = in.offset();
    const size_t got = in.read(piece.data(), size_t(std::min<int64_t>(end - begin, piece_bytes)));
    if (got == 0) throw Error(ExitStatus::data, file.string() + " was truncated while it was read");
    const size_t at = std::string_view(piece.data(), got).rfind('\n');
    if (at != std::string_view::npos) found = begin + int64_t(at) + 1;
  }
  return found;
}

/// At least one of `count` documents, never all. The 1e-9 keeps 0.1 * 30 at 3 despite rounding.
int64_t held_out_documents(int64_t count, double share) {
  const auto wanted = int64_t(std::ceil(share * double(count) - 1e-9));
  return std::clamp<int64_t>(wanted, 1, count - 1);
}

void split_one(const fs::path& file, const TextRange& document, const TextSplitting& how, std::vector<TextRange>& train,
               std::vector<TextRange>& validation) {
  const auto held_out = line_end_before(file, document, how.held_out, how.as_bytes);
  const auto read = how.validation > 0 ? line_end_before(file, document, how.validation, how.as_bytes) : std::nullopt;
  train = {{document.begin, held_out.value_or(read.value_or(document.end))}};
  if (read) validation = {{*read, document.end}};
}

void split_file(const fs::path& file, const TextSplitting& how, SplitParts& parts) {
  auto [train, has_separator] = find_documents(file, how.separator, how.as_bytes);
  std::vector<TextRange> validation;
  const auto count = int64_t(train.size());
  parts.documents += count;
  if (!how.separator.empty() && !has_separator) parts.unseparated.push_back(file);
  if (how.held_out > 0 && count == 1) {
    const TextRange document = train.front();
    split_one(file, document, how, train, validation);
  } else if (how.held_out > 0 && count > 1) {
    if (how.validation > 0) validation.assign(train.end() - held_out_documents(count, how.validation), train.end());
    train.resize(size_t(count - held_out_documents(count, how.held_out)));
  }
  if (!train.empty()) parts.train.push_back({file, std::move(train), how.as_bytes});
  if (!validation.empty()) parts.validation.push_back({file, std::move(validation), how.as_bytes});
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

}  // namespace

std::vector<TextPart> whole_files(const std::vector<fs::path>& files, bool as_bytes) {
  return split_files(files, {"", 0, 0, as_bytes}).train;
}

int64_t document_bytes(const std::vector<TextPart>& parts) {
  int64_t bytes = 0;
  for (const TextPart& part : parts)
    for (const TextRange& document : part.documents) bytes += document.end - document.begin;
  return bytes;
}

std::string TextSplitting::identity() const {
  const std::string bytes = as_bytes ? " bytes" : "";
  if (takes_files_whole()) return bytes;
  return bytes + printed(" held out %.17g validation %.17g separator ", held_out, validation) + separator;
}

TextSplitting text_splitting(const Experiment& experiment) {
  return {experiment.data.separator, held_out_share(experiment), experiment.validation.share,
          experiment.data.encoding == TextEncoding::bytes};
}

SplitParts split_files(const std::vector<fs::path>& files, const TextSplitting& splitting) {
  SplitParts parts;
  for (const auto& file : files) split_file(file, splitting, parts);
  return parts;
}

OtherLineEnds find_other_line_ends(const std::vector<fs::path>& files, const TextSplitting& splitting) {
  const std::string lf = replaced(splitting.separator, "\r\n", "\n"), crlf = replaced(lf, "\n", "\r\n");
  const std::string& other = splitting.separator == lf ? crlf : lf;
  if (other == splitting.separator) return {};
  for (const fs::path& file : files)
    if (find_documents(file, other, splitting.as_bytes).has_separator) return {other, file};
  return {};
}

}  // namespace wmtp
