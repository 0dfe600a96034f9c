#include "huggingface/tensor_stream.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/crc32c.hpp"
#include "base/files.hpp"
#include "base/work_progress.hpp"
#include "checkpoint/safetensors/number_formats.hpp"
#include "checkpoint/verify.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;
using Writers = std::vector<std::unique_ptr<SafetensorsWriter>>;

/// Small enough to stay in the second-level cache between reading, converting, summing and writing.
constexpr int64_t piece_elements = 64 << 10;

/// Checksums of all bytes read, and of the bytes written to each target.
struct CopySums {
  uint32_t read = 0, written = 0;
};

/// Executes one move, piece by piece in its own buffers.
class Pieces {
 public:
  explicit Pieces(const TensorCopy& move)
      : move_(move),
        entry_(*move.source.entry),
        read_size_(dtype_size(entry_.dtype)),
        count_((entry_.end - entry_.begin) / read_size_),
        size_(move.order == RowOrder::kept ? std::min(piece_elements, count_) : count_ / move.heads),
        read_(size_t(size_ * read_size_)) {
    if (move.order != RowOrder::kept) ordered_.resize(read_.size());
    if (entry_.dtype != move.dtype) numbers_.resize(size_t(size_));
    if (entry_.dtype != move.dtype && move.dtype == "BF16") short_.resize(size_t(size_));
  }

  int64_t count() const { return count_; }

  CopySums run(const Writers& writers, WorkProgress& progress) {
    CopySums sums;
    const int64_t write_size = dtype_size(move_.dtype);
    for (int64_t begin = 0; begin < count_; begin += size_) {
      const int64_t count = std::min(size_, count_ - begin);
      const size_t read = size_t(count * read_size_), written = size_t(count * write_size);
      move_.source.read_bytes(begin * read_size_, read_.data(), read);
      move_.source.check_finite(begin, read_.data(), count);
      sums.read = crc32c(read_.data(), read, sums.read);
      const uint8_t* bytes = converted(reordered(), count);
      sums.written = bytes == read_.data() ? sums.read : crc32c(bytes, written, sums.written);
      for (const TensorCopy::Target& target : move_.targets)
        writers[target.file]->write(target.name, begin * write_size, bytes, written);
      progress.advance(int64_t(read));
    }
    return sums;
  }

 private:
  const uint8_t* reordered() {
    if (move_.order == RowOrder::kept) return read_.data();
    const int64_t head_rows = move_.rows / move_.heads;
    reorder_rows(move_.order, read_.data(), ordered_.data(), head_rows, size_ / head_rows * read_size_);
    return ordered_.data();
  }
  const uint8_t* converted(const uint8_t* bytes, int64_t count) {
    if (numbers_.empty()) return bytes;
    to_float(entry_.dtype, bytes, count, numbers_.data());
    if (short_.empty()) return reinterpret_cast<const uint8_t*>(numbers_.data());
    to_bf16(numbers_.data(), count, short_.data());
    return reinterpret_cast<const uint8_t*>(short_.data());
  }

  const TensorCopy& move_;
  const TensorEntry& entry_;
  const int64_t read_size_, count_, size_;  ///< size_: elements of a piece; of one head if reordered
  std::vector<uint8_t> read_, ordered_;
  std::vector<float> numbers_;
  std::vector<uint16_t> short_;
};

}  // namespace

void TensorCopy::reorder(RowOrder wanted, int64_t rotary_heads, int64_t all_rows) {
  if (rotary_heads == 0) return;
  order = wanted;
  heads = rotary_heads;
  rows = all_rows;
}

void reorder_rows(RowOrder order, const uint8_t* in, uint8_t* out, int64_t head_rows, int64_t row_bytes) {
  for (int64_t pair_row = 0; pair_row < head_rows; ++pair_row) {
    const int64_t row = halves_row(pair_row, head_rows);
    const int64_t from = order == RowOrder::pairs_to_halves ? pair_row : row;
    const int64_t to = order == RowOrder::pairs_to_halves ? row : pair_row;
    std::memcpy(out + to * row_bytes, in + from * row_bytes, size_t(row_bytes));
  }
}

SourceChecksums::SourceChecksums(const fs::path& folder, ManifestKind kind) {
  if (!is_there(folder / manifest_file_name)) return;
  if (is_training_checkpoint(folder)) {  // sums of shards are not sums of tensors
    verify_checkpoint(folder);
    return;
  }
  has_manifest_ = true;
  const Manifest manifest = read_manifest(folder);
  if (manifest.kind != kind)
    throw Error(ExitStatus::data, folder.string() + ": found kind \"" + to_string(manifest.kind) +
                                      "\" in its manifest, wanted \"" + to_string(kind) + "\"");
  for (const auto& [name, bytes] : manifest.files) {
    const InputFile file(folder / name);
    if (file.size() != bytes ||
        crc32c_outside(file, slice_ranges(folder / name, manifest.slices)) != manifest.sums.at(name))
      throw Error(ExitStatus::data,
                  (folder / name).string() + " differs from its manifest; see `wmtp-host checkpoint verify`");
  }
  for (const Slice& slice : manifest.slices) sums_[{slice.file, slice.entry}] = slice.crc32c;
}

void SourceChecksums::check(const StoredTensor& place, uint32_t sum) const {
  if (!has_manifest_) return;
  const auto found = sums_.find({place.file->path().filename().string(), place.entry->name});
  if (found != sums_.end() && found->second == sum) return;
  throw Error(ExitStatus::data,
              place.file->path().string() + ": tensor " + printable(place.entry->name) +
                  (found == sums_.end() ? " is not in the manifest" : " differs from its checksum in the manifest") +
                  "; the file is damaged, use another copy");
}

std::vector<Slice> copy_tensors(std::vector<TensorCopy> moves, const fs::path& folder,
                                const std::vector<std::string>& files, const SourceChecksums& sums) {
  std::ranges::stable_sort(
      moves, {}, [](const TensorCopy& move) { return std::pair(move.source.file->path(), move.source.entry->begin); });
  std::vector<std::vector<TensorEntry>> entries(files.size());
  for (const TensorCopy& move : moves)
    for (const TensorCopy::Target& target : move.targets)
      entries[target.file].push_back({target.name, move.dtype, move.shape});
  Writers writers;
  for (size_t i = 0; i < files.size(); ++i)
    writers.push_back(std::make_unique<SafetensorsWriter>(folder / files[i], std::move(entries[i]),
                                                          std::map<std::string, std::string>{{"format", "pt"}}));
  std::vector<Slice> slices;
  int64_t all = 0;
  for (const TensorCopy& move : moves) all += move.source.entry->end - move.source.entry->begin;
  WorkProgress progress("copying tensors", all, WorkProgress::Unit::bytes);
  for (const TensorCopy& move : moves) {
    Pieces pieces(move);
    const CopySums moved = pieces.run(writers, progress);
    sums.check(move.source, moved.read);
    for (const TensorCopy::Target& target : move.targets)
      slices.push_back({parameter_prefix + target.name, move.shape, 0, pieces.count(), files[target.file], target.name,
                        moved.written});
  }
  for (const auto& writer : writers) writer->finish();
  return slices;
}

}  // namespace wmtp
