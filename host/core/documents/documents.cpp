#include "core/documents/documents.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <optional>

#include "base/error.hpp"
#include "base/text.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

constexpr size_t piece_bytes = 1 << 20;

/// Splits a text that arrives in pieces at its separators, which may cross pieces.
class DocumentFinder {
 public:
  explicit DocumentFinder(const std::string& separator) : separator_(separator) {}

  void take(std::string_view piece) {
    text_ += piece;
    size_t next = 0;
    for (size_t at; (at = text_.find(separator_, next)) != std::string::npos; next = at + separator_.size()) {
      look_at(next, at);
      end_document(at);
      begin_ = offset_ + static_cast<int64_t>(at + separator_.size());
    }
    // The rest may be the start of a separator.
    const size_t done = text_.size() - std::min(text_.size() - next, separator_.size() - 1);
    look_at(next, done);
    offset_ += static_cast<int64_t>(done);
    text_.erase(0, done);
  }

  std::vector<TextRange> finish() {
    look_at(0, text_.size());
    end_document(text_.size());
    return std::move(found_);
  }

 private:
  void look_at(size_t begin, size_t end) { blank_ = blank_ && text_.find_first_not_of(" \t\n\v\f\r", begin) >= end; }
  void end_document(size_t at) {
    if (!blank_) found_.push_back({begin_, offset_ + static_cast<int64_t>(at)});
    blank_ = true;
  }

  const std::string& separator_;
  std::string text_;    ///< the part of the file that is in memory
  int64_t offset_ = 0;  ///< of text_ in the file
  int64_t begin_ = 0;   ///< start of the current document in the file
  bool blank_ = true;   ///< whether the current document is blank so far
  std::vector<TextRange> found_;
};

std::vector<TextRange> documents_of(const fs::path& file, const std::string& separator) {
  if (separator.empty()) return {{0, static_cast<int64_t>(fs::file_size(file))}};
  DocumentFinder finder(separator);
  std::ifstream in(file, std::ios::binary);
  std::vector<char> piece(piece_bytes);
  while (in) {
    in.read(piece.data(), piece_bytes);
    finder.take({piece.data(), static_cast<size_t>(in.gcount())});
  }
  if (!in.eof() || in.bad())
    throw Error(ExitStatus::data, "cannot read " + file.string() + ": " + std::strerror(errno));
  return finder.finish();
}

/// Position after the last newline before the document's last `share`; nullopt if there is none.
std::optional<int64_t> line_end_before(const fs::path& file, const TextRange& document, double share) {
  const auto bytes = static_cast<double>(document.end - document.begin);
  int64_t end = document.begin + static_cast<int64_t>(std::floor(bytes * (1 - share)));
  std::ifstream in(file, std::ios::binary);
  std::string piece;
  while (end > document.begin) {
    const int64_t begin = std::max(document.begin, end - static_cast<int64_t>(piece_bytes));
    piece.resize(static_cast<size_t>(end - begin));
    in.seekg(begin);
    if (!in.read(piece.data(), end - begin))
      throw Error(ExitStatus::data, "cannot read " + file.string() + ": " + std::strerror(errno));
    if (const size_t at = piece.rfind('\n'); at != std::string::npos) return begin + static_cast<int64_t>(at) + 1;
    end = begin;
  }
  return std::nullopt;
}

/// At least one of `count` documents, never all. The 1e-9 keeps 0.1 * 30 at 3 despite rounding.
int64_t held_out_documents(int64_t count, double share) {
  const auto wanted = static_cast<int64_t>(std::ceil(share * static_cast<double>(count) - 1e-9));
  return std::clamp<int64_t>(wanted, 1, count - 1);
}

void split_one(const fs::path& file, const TextRange& document, const TextSplitting& how, std::vector<TextRange>& train,
               std::vector<TextRange>& validation) {
  const auto held_out = line_end_before(file, document, how.held_out);
  const auto read = how.validation > 0 ? line_end_before(file, document, how.validation) : std::nullopt;
  train = {{document.begin, held_out.value_or(read.value_or(document.end))}};
  if (read) validation = {{*read, document.end}};
}

void split_file(const fs::path& file, const TextSplitting& how, SplitParts& parts) {
  std::vector<TextRange> train = documents_of(file, how.separator), validation;
  const auto count = static_cast<int64_t>(train.size());
  if (how.held_out > 0 && count == 1) {
    const TextRange document = train.front();
    split_one(file, document, how, train, validation);
  } else if (how.held_out > 0 && count > 1) {
    if (how.validation > 0) validation.assign(train.end() - held_out_documents(count, how.validation), train.end());
    train.resize(static_cast<size_t>(count - held_out_documents(count, how.held_out)));
  }
  if (!train.empty()) parts.train.push_back({file, std::move(train)});
  if (!validation.empty()) parts.validation.push_back({file, std::move(validation)});
}

}  // namespace

std::vector<TextPart> whole_files(const std::vector<fs::path>& files) { return split_files(files, {}).train; }

int64_t bytes_of(const std::vector<TextPart>& parts) {
  int64_t bytes = 0;
  for (const TextPart& part : parts)
    for (const TextRange& document : part.documents) bytes += document.end - document.begin;
  return bytes;
}

std::string TextSplitting::identity() const {
  if (takes_files_whole()) return "";
  return printed(" held out %.17g validation %.17g separator ", held_out, validation) + separator;
}

TextSplitting splitting_of(const Experiment& experiment) {
  return {experiment.data.separator, held_out_share(experiment), experiment.validation.share};
}

SplitParts split_files(const std::vector<fs::path>& files, const TextSplitting& splitting) {
  SplitParts parts;
  for (const auto& file : files) split_file(file, splitting, parts);
  return parts;
}

}  // namespace wmtp
