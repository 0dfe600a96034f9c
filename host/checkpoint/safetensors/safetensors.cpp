#include "checkpoint/safetensors/safetensors.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/json.hpp"
#include "base/shell_text.hpp"
#include "base/text.hpp"
#include "checkpoint/safetensors/safetensors_header.hpp"
#include "io/file_kind.hpp"

namespace wmtp {
namespace {

constexpr size_t max_pointer_bytes = 1024;  // of Git LFS

/// A pickle can run code when it is loaded, so it is never read.
[[noreturn]] void refuse_pickle(const std::filesystem::path& path) {
  std::filesystem::path target = path;
  target.replace_extension(".safetensors");
  throw Error(ExitStatus::data,
              path.string() +
                  " is a pickle of torch.save, which can run code when it is read; only safetensors files are "
                  "read. If you trust the file, convert it with\n  python3 -c \"import sys, torch; from "
                  "safetensors.torch import save_file; save_file({k: v.contiguous().clone() for k, v in "
                  "torch.load(sys.argv[1], map_location='cpu', weights_only=True).items()}, sys.argv[2])\" " +
                  shell_path(path.string()) + " " + shell_path(target.string()));
}

bool looks_like_pickle(std::string_view start) {
  const bool zip = start.substr(0, 4) == "PK\x03\x04";
  const bool pickle = start.size() > 1 && start[0] == '\x80' && start[1] >= 2 && start[1] <= 5;
  return zip || pickle;
}

/// The header's text. A pickle's first bytes may also be a valid header length, so they are examined only if the file
/// is not a valid safetensors file.
std::string read_header(const InputFile& file, const std::filesystem::path& path) {
  const auto refuse = [&](const std::string& start, const std::string& what) {
    if (looks_like_pickle(start)) refuse_pickle(path);
    refuse_pointer(path, read_file_start(path, max_pointer_bytes));
    throw Error(ExitStatus::data, path.string() + " is not a complete safetensors file: " + what);
  };
  std::string start(size_t(std::min<int64_t>(file.size(), 9)), '\0');
  file.read_at(0, start.data(), start.size());
  if (start.size() < 9) refuse(start, "it has " + std::to_string(file.size()) + " bytes; the smallest header takes 10");
  uint64_t length;
  std::memcpy(&length, start.data(), sizeof length);
  if (length > uint64_t(max_safetensors_header)) {
    refuse(start, "its header would have " + std::to_string(length) + " bytes; the limit is " +
                      std::to_string(max_safetensors_header));
  }
  if (int64_t(length) > file.size() - 8) {
    refuse(start, "its header has " + std::to_string(length) + " bytes, the file has " + std::to_string(file.size()) +
                      "; it is truncated");
  }
  if (length == 0 || start[8] != '{') refuse(start, "its header does not begin with {");
  std::string header(length, '\0');
  file.read_at(8, header.data(), header.size());
  return header;
}

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  throw Error(ExitStatus::bug, path + ": " + what);
}

int64_t byte_size(const TensorEntry& entry, const std::string& path) {
  int64_t bytes = dtype_size(entry.dtype);
  if (bytes == 0) refuse(path, "tensor " + printable(entry.name) + " has the unknown dtype " + printable(entry.dtype));
  for (const int64_t length : entry.shape) {
    if (length < 0 || __builtin_mul_overflow(bytes, length, &bytes))
      refuse(path, "tensor " + printable(entry.name) + " has a shape that is negative or too large");
  }
  return bytes;
}

/// The header, padded so that the buffer begins at a multiple of 8. Sets each entry's begin and end within the buffer.
std::string header_text(std::vector<TensorEntry>& entries, const std::map<std::string, std::string>& metadata,
                        const std::string& path) {
  std::string text = "{";
  const auto add = [&](const std::string& key, const OrderedJson& value) {
    try {
      if (text.size() > 1) text += ",";
      text += Json(key).dump();
      text += ":";
      text += value.dump();
    } catch (const Json::exception&) {
      refuse(path, printable(key) + " or its value is not UTF-8");
    }
  };
  if (!metadata.empty()) add("__metadata__", metadata);
  int64_t offset = 0;
  for (TensorEntry& entry : entries) {
    const int64_t bytes = byte_size(entry, path);
    entry.begin = offset;
    if (__builtin_add_overflow(offset, bytes, &offset)) refuse(path, "the tensors together are too large");
    entry.end = offset;
    add(entry.name, {{"dtype", entry.dtype}, {"shape", entry.shape}, {"data_offsets", {entry.begin, entry.end}}});
  }
  text += "}";
  text.append((8 - text.size() % 8) % 8, ' ');
  if (int64_t(text.size()) > max_safetensors_header)
    refuse(path, "its header has " + std::to_string(text.size()) + " bytes, more than readers accept");
  return text;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : path_(path), file_(path) {
  SafetensorsHeader header = parse_safetensors_header(read_header(file_, path), file_.size(), path.string());
  entries_ = std::move(header.entries);
  metadata_ = std::move(header.metadata);
  index_.reserve(entries_.size());
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (!index_.emplace(entries_[i].name, i).second) {
      throw Error(ExitStatus::data,
                  path.string() + ": tensor " + printable(entries_[i].name) + " occurs twice; the file is damaged");
    }
  }
}

void SafetensorsFile::read(const TensorEntry& entry, int64_t offset, void* bytes, size_t count) const {
  const int64_t room = entry.end - entry.begin - offset;
  if (offset < 0 || room < 0 || count > uint64_t(room)) {
    throw Error(ExitStatus::bug, path_.string() + ": read of " + std::to_string(count) + " bytes at " +
                                     std::to_string(offset) + " reaches beyond the tensor " + printable(entry.name));
  }
  file_.read_at(entry.begin + offset, bytes, count);
}

const TensorEntry* SafetensorsFile::find(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &entries_[found->second];
}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorEntry> entries,
                                     const std::map<std::string, std::string>& metadata)
    : file_(path), path_(path.string()) {
  const std::string header = header_text(entries, metadata, path_);
  const uint64_t length = header.size();
  const auto data_begin = int64_t(sizeof length + header.size());
  size_ = data_begin;
  for (const TensorEntry& entry : entries) {
    const Part part{.begin = data_begin + entry.begin, .end = data_begin + entry.end};
    if (entry.name == "__metadata__" || !parts_.emplace(entry.name, part).second)
      refuse(path_, "tensor " + printable(entry.name) + " is named twice, or has the name reserved for metadata");
    size_ = part.end;
  }
  file_.write({reinterpret_cast<const char*>(&length), sizeof length});
  file_.write(header);
}

void SafetensorsWriter::write(const std::string& name, int64_t offset, const void* bytes, size_t count) {
  const auto found = parts_.find(name);
  if (found == parts_.end()) refuse(path_, "tensor " + printable(name) + " was not declared");
  Part& part = found->second;
  const int64_t room = part.end - part.begin - offset;
  if (offset < 0 || room < 0 || count > uint64_t(room)) {
    refuse(path_, "write of " + std::to_string(count) + " bytes at " + std::to_string(offset) +
                      " reaches beyond the tensor " + printable(name));
  }
  file_.write_at(part.begin + offset, bytes, count);
  part.written += int64_t(count);
}

void SafetensorsWriter::finish() {
  for (const auto& [name, part] : parts_) {
    if (part.written != part.end - part.begin) {
      refuse(path_, "tensor " + printable(name) + " has " + std::to_string(part.end - part.begin) + " bytes, " +
                        std::to_string(part.written) + " were written");
    }
  }
  file_.finish();
}

}  // namespace wmtp
