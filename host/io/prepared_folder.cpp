#include "io/prepared_folder.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "base/error.hpp"
#include "io/synced_file.hpp"

namespace wmtp {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

[[noreturn]] void fail_storage(const std::string& what, const fs::path& path, int error) {
  throw Error(ExitStatus::storage, "cannot " + what + " " + path.string() + ": " + std::strerror(error) +
                                       "; free space, or name another folder with log.database");
}

}  // namespace

std::optional<Json> read_prepared(const fs::path& folder) {
  std::ifstream in(folder / "prepared.json");
  if (!in) return std::nullopt;
  const Json prepared = Json::parse(in, nullptr, false);
  if (!prepared.is_object() || !prepared.contains("files")) return std::nullopt;
  for (const auto& [name, bytes] : prepared["files"].items()) {
    std::error_code failure;
    if (!bytes.is_number() || fs::file_size(folder / name, failure) != bytes.get<uintmax_t>() || failure)
      return std::nullopt;
  }
  return prepared;
}

TemporaryFolder::TemporaryFolder(const fs::path& target)
    : target_(target), path_(target.string() + ".tmp-" + std::to_string(getpid())) {
  std::error_code failure;
  fs::remove_all(path_, failure);  // of a process that had this number before and died
  fs::create_directories(path_, failure);
  if (failure) fail_storage("create", path_, failure.value());
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void TemporaryFolder::finish(Json prepared) {
  for (const auto& entry : fs::directory_iterator(path_))
    prepared["files"][entry.path().filename().string()] = entry.file_size();
  SyncedFile file(path_ / "prepared.json");
  file.add(prepared.dump(2) + "\n");
  file.finish();
  rename_into_place();
}

void TemporaryFolder::rename_into_place() {
  if (rename(path_.c_str(), target_.c_str()) == 0 || read_prepared(target_)) return;
  std::error_code ignored;
  fs::remove_all(target_, ignored);  // a damaged one: what it held is made from its hash again
  if (rename(path_.c_str(), target_.c_str()) != 0 && !read_prepared(target_)) fail_storage("rename", path_, errno);
}

}  // namespace wmtp
