#include "io/file_digests.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <sstream>

#include "base/files.hpp"
#include "base/normal_path.hpp"
#include "base/sha256.hpp"
#include "io/durable_file.hpp"
#include "io/input_file.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

constexpr size_t digest_size = 64, words_of_state = 4;
constexpr int64_t longest_list = int64_t{256} << 20;  // of about a million files

std::string file_key(const fs::path& file) { return absolute_path(file).string(); }

int64_t nanoseconds(const timespec& time) { return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; }

/// Empty if the file cannot be examined. Sets `changed` to the later of both times, in ns.
std::string file_state(const fs::path& file, int64_t* changed = nullptr) {
  struct stat found = {};
  const FileDescriptor opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (opened.get() < 0 || ::fstat(opened.get(), &found) != 0) return "";
  const int64_t modified = nanoseconds(found.st_mtim), changed_at = nanoseconds(found.st_ctim);
  if (changed) *changed = std::max(modified, changed_at);
  return std::to_string(found.st_size) + " " + std::to_string(found.st_ino) + " " + std::to_string(modified) + " " +
         std::to_string(changed_at);
}

bool is_digest(const std::string& text) {
  return text.size() == digest_size && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

/// The end of the first `count` words.
size_t end_of_words(const std::string& text, size_t begin, size_t count) {
  size_t end = begin;
  for (; count > 0 && end != std::string::npos; --count) end = text.find(' ', end == begin ? begin : end + 1);
  return end;
}

}  // namespace

FileDigests::FileDigests(fs::path list, std::chrono::nanoseconds settled)
    : list_(std::move(list)), settled_(settled), entries_(entries_of(list_)) {}

FileDigests::~FileDigests() {
  try {
    if (!fresh_.empty()) save();
  } catch (const std::exception&) {  // the next start reads the files again
  }
}

std::optional<std::string> FileDigests::known(const fs::path& file) const {
  const auto entry = entries_.find(file_key(file));
  if (entry == entries_.end() || entry->second.state != file_state(file)) return std::nullopt;
  return entry->second.digest;
}

std::string FileDigests::read(const fs::path& file, WorkProgress* progress) {
  int64_t changed = 0;
  const std::string before = file_state(file, &changed);
  const int64_t now = std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
  std::string digest = file_sha256_hex(file, progress);
  const std::string key = file_key(file);
  const bool is_settled = now - changed >= settled_.count() && before == file_state(file);
  if (is_settled && key.find('\n') == std::string::npos) entries_[key] = fresh_[key] = {before, digest};
  return digest;
}

/// Lines: digest, state, path.
FileDigests::Entries FileDigests::entries_of(const fs::path& list) {
  Entries entries;
  std::istringstream in(read_cached_file(list, longest_list).value_or(""));
  for (std::string line; std::getline(in, line);) {
    const size_t end = end_of_words(line, digest_size + 1, words_of_state);
    if (end == std::string::npos || !is_digest(line.substr(0, digest_size)) || line[digest_size] != ' ') continue;
    entries[line.substr(end + 1)] = {line.substr(digest_size + 1, end - digest_size - 1), line.substr(0, digest_size)};
  }
  return entries;
}

void FileDigests::save() const {
  std::error_code ignored;
  if (!fs::exists(fs::absolute(list_).parent_path().parent_path(), ignored)) return;
  Entries all = entries_of(list_);  // another process may have written it meanwhile
  for (const auto& [path, entry] : fresh_) all[path] = entry;
  std::string text;
  for (const auto& [path, entry] : all)
    if (fs::exists(path, ignored)) text += entry.digest + " " + entry.state + " " + path + "\n";
  fs::create_directories(list_.parent_path());
  write_file_durably(list_, text);
}

}  // namespace wmtp
