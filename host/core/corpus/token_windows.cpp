#include "core/corpus/token_windows.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <vector>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/hash64.hpp"
#include "base/text.hpp"
#include "io/input_file.hpp"

namespace wmtp {

namespace {

constexpr int64_t llm_c_header_bytes = 1024;
constexpr int32_t llm_c_uint16 = 20240520, llm_c_uint32 = 20240801;  // how their headers begin

class TokenFile : public TokenWindows {
 public:
  TokenFile(const std::filesystem::path& file, bool wide, int64_t sequence_length, int64_t vocab_size)
      : file_(file), id_bytes_(wide ? 4 : 2), sequence_length_(sequence_length), vocab_size_(vocab_size) {
    check_is_file(file);
    descriptor_ = open(file.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor_ < 0)
      throw Error(ExitStatus::data, "cannot open token file " + file.string() + ": " + std::strerror(errno));
    try {
      measure();
    } catch (...) {
      close(descriptor_);
      throw;
    }
  }
  ~TokenFile() override { close(descriptor_); }
  TokenFile(const TokenFile&) = delete;
  TokenFile& operator=(const TokenFile&) = delete;

  int64_t count() const override { return num_ids_ / sequence_length_; }

  void read(int64_t index, int64_t* ids) const override {
    std::vector<unsigned char> bytes(static_cast<size_t>(sequence_length_ * id_bytes_));
    const int64_t first = index * sequence_length_;
    if (!read_at(descriptor_, file_, first_byte_ + first * id_bytes_, bytes.data(), bytes.size()))
      throw Error(ExitStatus::data, file_.string() + " has become shorter while it was read: it held " +
                                        with_thousands(num_ids_) + " ids at the start, now window " +
                                        with_thousands(index) + " is not whole; do not change data under a run");
    const unsigned char* next = bytes.data();
    for (int64_t i = 0; i < sequence_length_; ++i, next += id_bytes_) {
      int64_t id = next[0] | next[1] << 8;
      if (id_bytes_ == 4) id |= static_cast<int64_t>(next[2]) << 16 | static_cast<int64_t>(next[3]) << 24;
      if (id >= vocab_size_)
        throw Error(ExitStatus::data, file_.string() + ", position " + with_thousands(first + i) + ": id " +
                                          with_thousands(id) + " is not below the vocabulary's size " +
                                          with_thousands(vocab_size_) +
                                          "; set model.vocab_size to that of the tokenizer that wrote the file, and "
                                          "check data.dtype");
      ids[i] = id;
    }
  }

 private:
  void measure() {
    struct stat status;
    if (fstat(descriptor_, &status) != 0)
      throw Error(ExitStatus::data, "cannot read " + file_.string() + ": " + std::strerror(errno));
    if (status.st_size == 0) throw Error(ExitStatus::data, "token file " + file_.string() + " is empty");
    if (status.st_size % id_bytes_ != 0)
      throw Error(ExitStatus::data, file_.string() + " has " + with_thousands(status.st_size) +
                                        " bytes, no multiple of the " + std::to_string(id_bytes_) + " of a " +
                                        (id_bytes_ == 4 ? "uint32" : "uint16") +
                                        " id: it is cut short, or data.dtype " + "is wrong");
    first_byte_ = has_llm_c_header(status.st_size) ? llm_c_header_bytes : 0;
    num_ids_ = (status.st_size - first_byte_) / id_bytes_;
    if (num_ids_ < sequence_length_)
      throw Error(ExitStatus::data, file_.string() + " has " + with_thousands(num_ids_) +
                                        " ids, fewer than one window of " + with_thousands(sequence_length_) +
                                        "; give more data or lower train.sequence_length");
  }

  /// Raw ids are never taken for a header: one that does not fit is refused only where zeros follow it, as llm.c writes
  /// them.
  bool has_llm_c_header(int64_t size) const {
    std::array<int32_t, llm_c_header_bytes / 4> header{};
    const auto bytes = static_cast<size_t>(std::min(size, llm_c_header_bytes));
    read_at(descriptor_, file_, 0, header.data(), bytes);
    const int32_t magic = header[0], version = header[1], count = header[2];
    if (magic != llm_c_uint16 && magic != llm_c_uint32) return false;
    const bool wide = magic == llm_c_uint32;
    const int64_t ids = (size - llm_c_header_bytes) / (wide ? 4 : 2);
    const bool fits = size > llm_c_header_bytes && version == (wide ? 7 : 1) && count == ids;
    if (fits && wide == (id_bytes_ == 4)) return true;
    if (std::any_of(header.begin() + 3, header.end(), [](int32_t word) { return word != 0; })) return false;
    refuse_llm_c_header(wide, version, count, ids);
  }

  [[noreturn]] void refuse_llm_c_header(bool wide, int32_t version, int32_t count, int64_t ids) const {
    const std::string dtype = wide ? "uint32" : "uint16";
    const std::string header = file_.string() + " begins with a header of llm.c for " + dtype + " ids, ";
    if (wide != (id_bytes_ == 4))
      throw Error(ExitStatus::data, header + "but data.dtype is another; set data.dtype = \"" + dtype + "\"");
    const std::string wanted_version = wide ? "7" : "1";
    if (std::to_string(version) != wanted_version)
      throw Error(ExitStatus::data, header + "of version " + std::to_string(version) + ", wanted " + wanted_version +
                                        "; write the file again, or cut the header off: tail -c +1025 " +
                                        file_.string());
    throw Error(ExitStatus::data, header + "which counts " + with_thousands(count) + " ids, but " +
                                      with_thousands(std::max<int64_t>(0, ids)) +
                                      " follow it: the file is cut short or damaged; fetch or write it again");
  }

  std::filesystem::path file_;
  int64_t id_bytes_, sequence_length_, vocab_size_;
  int descriptor_ = -1;
  int64_t first_byte_ = 0, num_ids_ = 0;
};

class RandomWindows : public TokenWindows {
 public:
  RandomWindows(int64_t seed, int64_t sequence_length, int64_t vocab_size)
      : seed_(static_cast<uint64_t>(seed)), sequence_length_(sequence_length), vocab_size_(vocab_size) {}

  int64_t count() const override { return std::numeric_limits<int64_t>::max(); }

  void read(int64_t index, int64_t* ids) const override {
    const uint64_t key = hash64(seed_, static_cast<uint64_t>(index));
    for (int64_t i = 0; i < sequence_length_; ++i) {
      // The upper 64 bits of the product: uniform to one part in 2^64 / vocab_size.
      const auto wide = static_cast<unsigned __int128>(hash64(key, static_cast<uint64_t>(i)));
      ids[i] = static_cast<int64_t>(wide * static_cast<uint64_t>(vocab_size_) >> 64);
    }
  }

 private:
  uint64_t seed_;
  int64_t sequence_length_, vocab_size_;
};

}  // namespace

std::unique_ptr<TokenWindows> open_token_file(const std::filesystem::path& file, const std::string& dtype,
                                              int64_t sequence_length, int64_t vocab_size) {
  if (dtype != "uint16" && dtype != "uint32")
    throw Error(ExitStatus::data,
                "ids of " + file.string() + " are \"" + dtype + "\"; \"uint16\" or \"uint32\" is wanted");
  return std::make_unique<TokenFile>(file, dtype == "uint32", sequence_length, vocab_size);
}

std::unique_ptr<TokenWindows> random_windows(int64_t seed, int64_t sequence_length, int64_t vocab_size) {
  return std::make_unique<RandomWindows>(seed, sequence_length, vocab_size);
}

}  // namespace wmtp
