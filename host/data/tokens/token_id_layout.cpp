#include "data/tokens/token_id_layout.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "data/tokens/foreign_numbers.hpp"
#include "io/file_kind.hpp"
#include "io/input_file.hpp"

namespace wmtp {

namespace {

namespace fs = std::filesystem;

constexpr int64_t llm_c_header_bytes = 1024;
constexpr int32_t llm_c_uint16 = 20240520, llm_c_uint32 = 20240801;  // magic numbers
constexpr std::string_view numpy_magic = "\x93NUMPY", megatron_magic{"MMIDIDX\0\0", 9}, fairseq_magic = "TNTIDX";
constexpr int64_t max_numpy_header_bytes = 1 << 16;
constexpr int64_t megatron_header_bytes = 34;
constexpr int64_t most_sequences = int64_t{1} << 40;
constexpr int64_t most_uint16_ids = 1 << 16;
// Words of 2 bytes at the beginning of raw ids: if there are many, and each second one is 0, or small where the first
// ones are not, they are halves of wider ids. In big-endian ids each first one is 0.
constexpr size_t shortest_seen = 256;
constexpr uint16_t most_high_words = 16, most_uint16_low = 256;
constexpr size_t block = 1 << 16;  // sequences of an index that are checked at a time

template <class T>
T number_at(const std::string& bytes, size_t offset) {
  T number{};
  std::memcpy(&number, bytes.data() + offset, sizeof number);
  return number;
}

/// The largest of the first, third, ... of these numbers, and of the second, fourth, ...
template <class T>
std::array<T, 2> largest_by_parity(std::string_view bytes) {
  std::array<T, 2> largest{};
  for (size_t i = 0; (i + 1) * sizeof(T) <= bytes.size(); ++i) {
    T number;
    std::memcpy(&number, bytes.data() + i * sizeof number, sizeof number);
    largest[i % 2] = std::max(largest[i % 2], number);
  }
  return largest;
}

/// What `open` and `close` enclose after `key`; "" if there is no such value. (std::regex recurses for each character.)
std::string python_value(std::string_view header, std::string_view key, char open, char close) {
  const size_t found = header.find(key);
  if (found == std::string_view::npos) return "";
  header.remove_prefix(found + key.size());
  const size_t begin = header.find_first_not_of(' ');
  if (begin == std::string_view::npos || header[begin] != open) return "";
  const size_t end = header.find(close, begin + 1);
  return end == std::string_view::npos ? "" : std::string(header.substr(begin + 1, end - begin - 1));
}

class Layout {
 public:
  Layout(const fs::path& path, const std::string& dtype, int64_t vocab_size)
      : path_(path), name_(path.string()), dtype_(dtype), vocab_size_(vocab_size), file_(path) {}

  TokenIdLayout read() const {
    if (file_.size() == 0) refuse_file("token file " + name_ + " is empty");
    const std::string start = bytes(file_, 0, std::min(file_.size(), llm_c_header_bytes));
    if (start.starts_with(megatron_magic))
      refuse("is the index of a file of ids by Megatron; set data.file to the .bin file beside it");
    const TokenIdLayout found = start.starts_with(numpy_magic) ? numpy(start)
                                : has_megatron_index(path_)    ? megatron()
                                : begins_as_llm_c(start)       ? llm_c(start)
                                                               : raw(start);
    if (!dtype_.empty() && found.type != dtype_)
      refuse("contains " + found.type + " ids by its header, but data.dtype is different; set data.dtype = \"" +
             found.type + "\", or remove it");
    return found;
  }

 private:
  [[noreturn]] static void refuse_file(const std::string& text) { throw Error(ExitStatus::data, text); }
  [[noreturn]] void refuse(const std::string& why) const { refuse_file(name_ + " " + why); }

  static std::string bytes(const InputFile& file, int64_t offset, int64_t count) {
    std::string text(size_t(count), '\0');
    file.read_at(offset, text.data(), text.size());
    return text;
  }

  TokenIdLayout raw(std::string_view start) const {
    const TokenIdLayout layout = raw_ids(path_, dtype_.empty() ? "uint16" : dtype_);
    const std::string first = bytes(file_, 0, std::min(file_.size(), int64_t(bytes_for_numbers)));
    const auto refuse_if = [&](const std::string& why) {
      if (!why.empty()) refuse(why);
    };
    refuse_if(whole_floats(first));
    if (dtype_.empty()) check_are_uint16(start);
    refuse_if(swapped_ids(first, layout.type, vocab_size_));
    if (dtype_.empty()) refuse_if(likely_foreign_numbers(first));
    if (file_.size() % layout.id_bytes() != 0)
      refuse("has " + with_thousands(file_.size()) + " bytes, not a multiple of the " +
             std::to_string(layout.id_bytes()) + "-byte " + layout.type +
             " id: the file is truncated, or data.dtype is wrong");
    if (layout.type == "uint32") check_are_not_int64(start);
    return layout;
  }

  void check_are_not_int64(std::string_view start) const {
    const auto [first, second] = largest_by_parity<uint32_t>(start);
    if (start.size() >= shortest_seen && first > 0 && second == 0)
      refuse("begins like ids of int64: each second id of uint32 is 0; save ids.astype(\"<u4\"), or as .npy");
  }

  void check_are_uint16(std::string_view start) const {
    if (vocab_size_ > most_uint16_ids)
      refuse("has no header that states the type of its ids, and a vocabulary of " + with_thousands(vocab_size_) +
             " is larger than uint16's; set data.dtype = \"uint32\", or \"uint16\" if its ids are below 65,536");
    if (start.size() < shortest_seen) return;
    const auto [first, second] = largest_by_parity<uint16_t>(start);
    const std::string with_type =
        "set data.dtype = \"uint32\" (or \"uint16\" if its ids are such), or save ids of int64 as .npy";
    if (first == 0 && second > 0)
      refuse(
          "begins like big-endian ids of uint32 or int64: each first word is 0; save them in little-endian order "
          "(ids.astype(\"<u4\")), and " +
          with_type);
    const uint16_t least_low = second == 0 ? 1 : most_uint16_low;
    if (second < most_high_words && first >= least_low)
      refuse("begins like ids of uint32 or int64: each second word is below " + std::to_string(most_high_words) + "; " +
             with_type);
  }

  /// A header whose count does not match the file is refused if its version is right, or if zeros follow it, as in
  /// llm.c's files: raw ids that happen to begin like a header are never refused.
  bool begins_as_llm_c(const std::string& start) const {
    if (start.size() < 4) return false;
    const auto magic = number_at<int32_t>(start, 0);
    if (magic != llm_c_uint16 && magic != llm_c_uint32) return false;
    const TokenIdLayout layout = llm_c_layout(start);
    if (llm_c_fits(start, layout) && (dtype_.empty() || dtype_ == layout.type)) return true;
    if (start.size() >= 8 && number_at<int32_t>(start, 4) == llm_c_version(layout)) return true;
    return start.find_first_not_of('\0', 12) == std::string::npos;
  }

  TokenIdLayout llm_c_layout(const std::string& start) const {
    TokenIdLayout layout{number_at<int32_t>(start, 0) == llm_c_uint32 ? "uint32" : "uint16", llm_c_header_bytes};
    layout.count = std::max<int64_t>(0, (file_.size() - llm_c_header_bytes) / layout.id_bytes());
    return layout;
  }

  static int32_t llm_c_version(const TokenIdLayout& layout) { return layout.type == "uint32" ? 7 : 1; }

  bool llm_c_fits(const std::string& start, const TokenIdLayout& layout) const {
    return file_.size() > llm_c_header_bytes && number_at<int32_t>(start, 4) == llm_c_version(layout) &&
           number_at<int32_t>(start, 8) == layout.count && (file_.size() - llm_c_header_bytes) % layout.id_bytes() == 0;
  }

  TokenIdLayout llm_c(const std::string& start) const {
    const TokenIdLayout layout = llm_c_layout(start);
    if (llm_c_fits(start, layout)) return layout;
    const std::string header = "begins with a header of llm.c for " + layout.type + " ids, ";
    const std::string padded = start + std::string(12, '\0');
    const auto version = number_at<int32_t>(padded, 4);
    if (version != llm_c_version(layout))
      refuse(header + "of version " + std::to_string(version) + ", wanted " + std::to_string(llm_c_version(layout)) +
             "; write the file again, or remove the header: tail -c +1025 " + name_);
    refuse(header + "which declares " + with_thousands(number_at<int32_t>(padded, 8)) + " ids, but " +
           with_thousands(layout.count) + " follow: the file is truncated or damaged; download or write it again");
  }

  /// numpy.lib.format: magic, version, length of the header, and the header, a dictionary of Python.
  TokenIdLayout numpy(const std::string& start) const {
    const bool is_short = start.size() > 7 && start[6] == 1;
    const int64_t begin = is_short ? 10 : 12;
    if (int64_t(start.size()) < begin || start[6] < 1 || start[6] > 3) refuse("has a damaged header of NumPy");
    const int64_t length = is_short ? number_at<uint16_t>(start, 8) : number_at<uint32_t>(start, 8);
    if (length > max_numpy_header_bytes || begin + length > file_.size()) refuse("has a damaged header of NumPy");
    const std::string header = bytes(file_, begin, length);
    const std::string descr = python_value(header, "'descr':", '\'', '\'');
    const std::string shape = python_value(header, "'shape':", '(', ')');
    static const std::vector<std::pair<std::string, std::string>> types{
        {"<u2", "uint16"}, {"<u4", "uint32"}, {"<i4", "int32"}, {"<i8", "int64"}};
    const auto type = std::find_if(types.begin(), types.end(), [&](const auto& one) { return one.first == descr; });
    if (type == types.end())
      refuse("is a NumPy array of type " + printable(descr.empty() ? "unknown" : descr) +
             ", wanted <u2, <u4, <i4 or <i8; save ids.astype(\"<u4\")");
    const auto count =
        shape.ends_with(',') ? parsed_number(std::string_view(shape).substr(0, shape.size() - 1)) : std::nullopt;
    if (!count || *count < 0)
      refuse("is a NumPy array of shape " + printable("(" + shape + ")") +
             ", wanted one dimension; save ids.reshape(-1)");
    const TokenIdLayout layout{type->second, begin + length, *count};
    if (*count > file_.size() || layout.offset + *count * layout.id_bytes() != file_.size())
      refuse("is a NumPy array of " + counted(*count, "id") + " by its header, which does not match its size of " +
             with_thousands(file_.size()) + " bytes: the file is truncated or damaged; download or write it again");
    return layout;
  }

  /// Megatron-LM, indexed_dataset.py: magic, version, type, numbers of sequences and documents, the length of each
  /// sequence (int32), its offset in bytes (int64), and the first sequence of each document (int64).
  TokenIdLayout megatron() const {
    const fs::path path = megatron_index(path_);
    const InputFile index(path);
    const auto fail = [&](const std::string& why) {
      refuse_file(path.string() + ", the index of " + name_ + ", " + why);
    };
    if (index.size() < megatron_header_bytes) fail("is truncated");
    const std::string header = bytes(index, 0, megatron_header_bytes);
    if (const auto version = number_at<uint64_t>(header, 9); version != 1)
      fail("has version " + std::to_string(version) + ", wanted 1");
    const auto code = uint8_t(header[17]);
    const char* type = code == 8 ? "uint16" : code == 4 ? "int32" : code == 5 ? "int64" : nullptr;
    if (!type) fail("has ids of type " + std::to_string(code) + ", wanted 8 (uint16), 4 (int32) or 5 (int64)");
    const auto sequences = number_at<int64_t>(header, 18), documents = number_at<int64_t>(header, 26);
    if (sequences < 0 || sequences > most_sequences || documents < 0 || documents > most_sequences ||
        megatron_header_bytes + sequences * 12 + documents * 8 != index.size())
      fail("has " + with_thousands(index.size()) + " bytes, which do not match its header of " +
           with_thousands(sequences) + " sequences and " + with_thousands(documents) + " documents");
    TokenIdLayout layout{type};
    layout.count = megatron_ids(index, sequences, layout.id_bytes(), fail);
    if (layout.count != file_.size() / layout.id_bytes() || file_.size() % layout.id_bytes() != 0)
      fail("has sequences of " + counted(layout.count, "id") + " together, but the file has " +
           with_thousands(file_.size()) + " bytes: one of both is truncated, or belongs to another file");
    return layout;
  }

  template <class Fail>
  static int64_t megatron_ids(const InputFile& index, int64_t sequences, int64_t id_bytes, const Fail& fail) {
    std::vector<int32_t> lengths;
    std::vector<int64_t> offsets;
    int64_t ids = 0;
    for (int64_t first = 0; first < sequences; first += int64_t(lengths.size())) {
      lengths.resize(size_t(std::min<int64_t>(block, sequences - first)));
      offsets.resize(lengths.size());
      index.read_at(megatron_header_bytes + first * 4, lengths.data(), lengths.size() * 4);
      index.read_at(megatron_header_bytes + sequences * 4 + first * 8, offsets.data(), offsets.size() * 8);
      for (size_t i = 0; i < lengths.size(); ++i) {
        if (lengths[i] < 0 || offsets[i] != ids * id_bytes)
          fail("places sequence " + with_thousands(first + int64_t(i)) + " at byte " + with_thousands(offsets[i]) +
               ", wanted " + with_thousands(ids * id_bytes) + ", the end of the one before");
        ids += lengths[i];
      }
    }
    return ids;
  }

  const fs::path& path_;
  std::string name_;
  const std::string& dtype_;
  int64_t vocab_size_;
  InputFile file_;
};

}  // namespace

TokenIdLayout raw_ids(const fs::path& file, const std::string& type) {
  TokenIdLayout layout{type};
  layout.count = InputFile(file).size() / layout.id_bytes();
  return layout;
}

TokenIdLayout token_id_layout(const fs::path& file, const std::string& dtype, int64_t vocab_size) {
  check_file_kind(file, FileUse::tokens);
  return Layout(file, dtype, vocab_size).read();
}

fs::path megatron_index(const fs::path& file) { return fs::path(file).replace_extension(".idx"); }

bool has_megatron_index(const fs::path& file) {
  const fs::path index = megatron_index(file);
  if (file.extension() != ".bin" || !is_there(index)) return false;
  const std::string magic = read_file_start(index, megatron_magic.size());
  if (magic.starts_with(fairseq_magic))
    throw Error(ExitStatus::data, index.string() + ", the index of " + file.string() +
                                      ", is of fairseq or of Megatron's early versions, which are not read; save the "
                                      "ids as .npy");
  return magic == megatron_magic;
}

}  // namespace wmtp
