#include <bit>
#include <nlohmann/json.hpp>

#include "base/storage_error.hpp"
#include "core/formats/safetensors/safetensors.hpp"
#include "core/formats/safetensors/safetensors_header.hpp"

namespace wmtp {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  throw Error(ExitStatus::bug, path + ": " + what);
}

int64_t byte_size(const TensorEntry& entry, const std::string& path) {
  int64_t bytes = dtype_size(entry.dtype);
  if (bytes == 0) refuse(path, "tensor " + printable(entry.name) + " has the unknown dtype " + printable(entry.dtype));
  for (const int64_t length : entry.shape) {
    if (length < 0 || __builtin_mul_overflow(bytes, length, &bytes)) {
      refuse(path, "tensor " + printable(entry.name) + " has a shape that is negative or too large");
    }
  }
  return bytes;
}

/// The header, padded so that the buffer begins at a multiple of 8. Sets each entry's begin and end within the buffer.
std::string header_text(std::vector<TensorEntry>& entries, const std::map<std::string, std::string>& metadata,
                        const std::string& path) {
  std::string text = "{";
  const auto add = [&](const std::string& key, const nlohmann::ordered_json& value) {
    try {
      if (text.size() > 1) text += ",";
      text += nlohmann::json(key).dump();
      text += ":";
      text += value.dump();
    } catch (const nlohmann::json::exception&) {
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
  if (static_cast<int64_t>(text.size()) > max_safetensors_header) {
    refuse(path, "its header has " + std::to_string(text.size()) + " bytes, more than readers accept");
  }
  return text;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorEntry> entries,
                                     const std::map<std::string, std::string>& metadata)
    : file_(path), path_(path.string()) {
  const std::string header = header_text(entries, metadata, path_);
  const uint64_t length = header.size();
  const auto data_begin = static_cast<int64_t>(sizeof length + header.size());
  size_ = data_begin;
  for (const TensorEntry& entry : entries) {
    const Part part{.begin = data_begin + entry.begin, .end = data_begin + entry.end};
    if (entry.name == "__metadata__" || !parts_.emplace(entry.name, part).second) {
      refuse(path_, "tensor " + printable(entry.name) + " is named twice, or has the name reserved for metadata");
    }
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
  if (offset < 0 || room < 0 || count > static_cast<uint64_t>(room)) {
    refuse(path_, "write of " + std::to_string(count) + " bytes at " + std::to_string(offset) +
                      " reaches beyond the tensor " + printable(name));
  }
  file_.write_at(part.begin + offset, bytes, count);
  part.written += static_cast<int64_t>(count);
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
