#include "io/decompressed_file.hpp"

#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/shell_text.hpp"
#include "base/text.hpp"

namespace wmtp {
namespace {

constexpr size_t piece_bytes = 1 << 20;
constexpr int zstd_window_log = 27;  // 128 MiB, the limit of the zstd program
constexpr int64_t always_allowed_bytes = int64_t{64} << 20;
constexpr int64_t max_expansion_factor = 200;
constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

}  // namespace

/// Unpacks pieces of a file into a buffer.
class DecompressedFile::Unpacker {
 public:
  virtual ~Unpacker() = default;
  /// Takes bytes from the front of `packed`; returns the number of bytes written to `out`. Sets `fault_` on damage.
  virtual size_t unpack(std::string_view& packed, char* out, size_t count) = 0;
  /// Whether all bytes taken so far form complete members or frames.
  bool is_complete() const { return is_complete_; }
  const std::string& fault() const { return fault_; }
  const std::string& advice() const { return advice_; }

 protected:
  bool is_complete_ = false;
  std::string fault_, advice_;
};

class DecompressedFile::Gzip : public Unpacker {
 public:
  Gzip() {
    constexpr int gzip_only = 16 + MAX_WBITS;
    if (inflateInit2(&stream_, gzip_only) != Z_OK) throw std::bad_alloc();
  }
  ~Gzip() override { inflateEnd(&stream_); }

  size_t unpack(std::string_view& packed, char* out, size_t count) override {
    if (is_complete_ && packed.empty()) return 0;
    if (is_complete_) inflateReset(&stream_);
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
    stream_.avail_in = uInt(packed.size());
    stream_.next_out = reinterpret_cast<Bytef*>(out);
    stream_.avail_out = uInt(count);
    const int result = inflate(&stream_, Z_NO_FLUSH);
    is_complete_ = result == Z_STREAM_END;
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
      fault_ = stream_.msg ? stream_.msg : "invalid data";
    packed.remove_prefix(packed.size() - stream_.avail_in);
    return count - stream_.avail_out;
  }

 private:
  z_stream stream_{};
};

class DecompressedFile::Zstd : public Unpacker {
 public:
  Zstd() : stream_(ZSTD_createDStream(), ZSTD_freeDStream) {
    if (!stream_) throw std::bad_alloc();
    ZSTD_DCtx_setParameter(stream_.get(), ZSTD_d_windowLogMax, zstd_window_log);
  }

  size_t unpack(std::string_view& packed, char* out, size_t count) override {
    if (is_complete_ && packed.empty()) return 0;
    ZSTD_inBuffer in{packed.data(), packed.size(), 0};
    ZSTD_outBuffer written{out, count, 0};
    const size_t result = ZSTD_decompressStream(stream_.get(), &written, &in);
    is_complete_ = result == 0;
    if (ZSTD_isError(result)) fault_ = ZSTD_getErrorName(result);
    if (ZSTD_getErrorCode(result) == ZSTD_error_frameParameter_windowTooLarge) {
      fault_ = "its window is larger than 128 MiB";
      advice_ = "unpack it first: zstd -d --long=31 ";
    }
    packed.remove_prefix(in.pos);
    return written.pos;
  }

 private:
  std::unique_ptr<ZSTD_DStream, size_t (*)(ZSTD_DStream*)> stream_;
};

Compression detect_compression(std::string_view start) {
  if (start.starts_with("\x1f\x8b")) return Compression::gzip;
  if (start.starts_with("\x28\xb5\x2f\xfd")) return Compression::zstd;
  // A skippable frame, with which files of pzstd begin.
  const bool skippable = start.size() >= 4 && (start[0] & 0xf0) == 0x50 && start.substr(1, 3) == "\x2a\x4d\x18";
  return skippable ? Compression::zstd : Compression::none;
}

std::string compressed_file_argument(const std::filesystem::path& file, Compression packing, bool unpacks) {
  const std::string path = shell_path(file.string()), suffix = file.extension();
  if (packing == Compression::zstd ? suffix == ".zst" : suffix == ".gz" || suffix == ".tgz") return path;
  return "< " + path + (unpacks ? " > " + shell_path(file.string() + ".unpacked") : "");
}

DecompressedFile::DecompressedFile(const std::filesystem::path& file, bool as_bytes) : path_(file), file_(file) {
  if (as_bytes) return;
  char start[4];
  const auto known = size_t(std::min<int64_t>(file_.size(), sizeof start));
  file_.read_at(0, start, known);
  packing_ = detect_compression({start, known});
  if (std::string_view(start, known).starts_with(byte_order_mark)) offset_ = byte_order_mark.size();
  if (packing_ == Compression::gzip) unpacker_ = std::make_unique<Gzip>();
  if (packing_ == Compression::zstd) unpacker_ = std::make_unique<Zstd>();
}

DecompressedFile::~DecompressedFile() = default;

size_t DecompressedFile::read(char* out, size_t count) {
  if (unpacker_) {
    if (!std::exchange(has_begun_, true)) {
      head_.resize(byte_order_mark.size());
      head_.resize(read_packed(head_.data(), head_.size()));
      if (head_ == byte_order_mark) head_.clear();
    }
    const size_t from_head = head_.copy(out, count);
    head_.erase(0, from_head);
    return from_head + read_packed(out + from_head, count - from_head);
  }
  count = size_t(std::min(int64_t(count), file_.size() - offset_));
  file_.read_at(offset_, out, count);
  offset_ += int64_t(count);
  return count;
}

int64_t DecompressedFile::skip(int64_t count) {
  if (!unpacker_) {
    count = std::min(count, file_.size() - offset_);
    offset_ += count;
    return count;
  }
  std::string piece(piece_bytes, '\0');
  int64_t done = 0;
  for (size_t got = 1; done < count && got > 0; done += int64_t(got))
    got = read(piece.data(), size_t(std::min<int64_t>(count - done, piece_bytes)));
  return done;
}

size_t DecompressedFile::read_packed(char* out, size_t count) {
  const std::string name = packing_ == Compression::gzip ? "gzip" : "zstd";
  const int64_t most = std::max(always_allowed_bytes, max_expansion_factor * file_.size());
  size_t done = 0;
  while (done < count) {
    if (rest_.empty()) rest_ = next_piece();
    const bool at_end = rest_.empty();
    // A piece of limited size, because zlib counts in 32 bits.
    const size_t written = unpacker_->unpack(rest_, out + done, std::min(count - done, piece_bytes));
    done += written;
    unpacked_ += int64_t(written);
    if (!unpacker_->fault().empty())
      refuse("found " + name + " data that cannot be unpacked, near byte " +
                 with_thousands(offset_ - int64_t(rest_.size())) + " of " + with_thousands(file_.size()) + " (" +
                 unpacker_->fault() + ")",
             unpacker_->advice().empty() ? "replace it by a good copy; check that with " + name + " -t "
                                         : unpacker_->advice());
    if (unpacked_ > most)
      refuse("found a " + name + " file of " + human_bytes(file_.size()) + " that unpacks to more than " +
                 human_bytes(most) + ", the limit for its size",
             "if that is its text, unpack it first: " + std::string(name == "gzip" ? "gunzip -k " : "zstd -d "));
    if (at_end && written == 0) {
      if (unpacker_->is_complete()) break;
      refuse("found a truncated " + name + " file: its " + with_thousands(file_.size()) +
                 " bytes end in the middle of the data",
             "replace it by a complete copy; check that with " + name + " -t ");
    }
  }
  return done;
}

std::string_view DecompressedFile::next_piece() {
  piece_.resize(size_t(std::min<int64_t>(piece_bytes, file_.size() - offset_)));
  file_.read_at(offset_, piece_.data(), piece_.size());
  offset_ += int64_t(piece_.size());
  return piece_;
}

void DecompressedFile::refuse(const std::string& found, const std::string& command) const {
  throw Error(ExitStatus::data, path_.string() + ": " + found + "; " + command +
                                    compressed_file_argument(path_, packing_, !command.ends_with(" -t ")));
}

}  // namespace wmtp
