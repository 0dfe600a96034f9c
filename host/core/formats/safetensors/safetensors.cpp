#include "core/formats/safetensors/safetensors.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/storage_error.hpp"
#include "core/formats/safetensors/safetensors_header.hpp"

namespace wmtp {
namespace {

std::string shell_quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

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
                  shell_quoted(path.string()) + " " + shell_quoted(target.string()));
}

bool looks_like_pickle(std::string_view start) {
  const bool zip = start.substr(0, 4) == "PK\x03\x04";
  const bool pickle = start.size() > 1 && start[0] == '\x80' && start[1] >= 2 && start[1] <= 5;
  return zip || pickle;
}

/// The header's text. A pickle's first bytes may also be a valid header length, so they are examined only after the
/// file has turned out not to be a safetensors file.
std::string read_header(const InputFile& file, const std::filesystem::path& path) {
  const auto refuse = [&](const std::string& start, const std::string& what) {
    if (looks_like_pickle(start)) refuse_pickle(path);
    throw Error(ExitStatus::data, path.string() + " is not a complete safetensors file: " + what);
  };
  std::string start(static_cast<size_t>(std::min<int64_t>(file.size(), 9)), '\0');
  file.read_at(0, start.data(), start.size());
  if (start.size() < 9) refuse(start, "it has " + std::to_string(file.size()) + " bytes; the smallest header takes 10");
  uint64_t length;
  std::memcpy(&length, start.data(), sizeof length);
  if (length > static_cast<uint64_t>(max_safetensors_header)) {
    refuse(start, "its header would have " + std::to_string(length) + " bytes; the limit is " +
                      std::to_string(max_safetensors_header));
  }
  if (static_cast<int64_t>(length) > file.size() - 8) {
    refuse(start, "its header has " + std::to_string(length) + " bytes, the file has " + std::to_string(file.size()) +
                      "; it was cut short");
  }
  if (length == 0 || start[8] != '{') refuse(start, "its header does not begin with {");
  std::string header(length, '\0');
  file.read_at(8, header.data(), header.size());
  return header;
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
  size_ = static_cast<size_t>(file_.size());
  void* map = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file_.descriptor(), 0);
  if (map == MAP_FAILED) throw storage_error("map", path, errno);
  map_ = static_cast<const uint8_t*>(map);
}

SafetensorsFile::~SafetensorsFile() { ::munmap(const_cast<uint8_t*>(map_), size_); }

void SafetensorsFile::read(const TensorEntry& entry, int64_t offset, void* bytes, size_t count) const {
  const int64_t room = entry.end - entry.begin - offset;
  if (offset < 0 || room < 0 || count > static_cast<uint64_t>(room)) {
    throw Error(ExitStatus::bug, path_.string() + ": read of " + std::to_string(count) + " bytes at " +
                                     std::to_string(offset) + " reaches beyond the tensor " + printable(entry.name));
  }
  file_.read_at(entry.begin + offset, bytes, count);
}

const TensorEntry* SafetensorsFile::find(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &entries_[found->second];
}

}  // namespace wmtp
