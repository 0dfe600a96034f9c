#include "io/prepared_folder.hpp"

#include "base/error.hpp"
#include "io/input_file.hpp"

namespace wmtp {

namespace fs = std::filesystem;

namespace {

constexpr int64_t max_prepared_bytes = 16 << 20;

/// Whether a file of ids has as many as were written. The sizes of `files` are those that it had when it was published.
bool has_all_ids(const Json& prepared, const Json& counted, const std::string& file) {
  if (!counted.is_object() || !counted.contains("tokens")) return true;
  const Json &files = prepared["files"], tokens = counted["tokens"];
  const int64_t id_bytes = prepared.value("dtype", Json()) == "uint32" ? 4 : 2;
  return tokens.is_number_integer() && files.contains(file) && files[file] == tokens.get<int64_t>() * id_bytes;
}

bool has_all_ids(const Json& prepared) {
  if (prepared.contains("tokens")) return has_all_ids(prepared, prepared, "records.ids");
  const auto part = [&](const char* name) { return prepared.contains(name) ? prepared[name] : Json(); };
  return has_all_ids(prepared, part("train"), "train.bin") &&
         has_all_ids(prepared, part("validation"), "validation.bin");
}

}  // namespace

std::optional<Json> read_prepared(const fs::path& folder) {
  const auto text = read_cached_file(folder / "prepared.json", max_prepared_bytes);
  if (!text) return std::nullopt;
  const Json prepared = Json::parse(*text, nullptr, false);
  if (!prepared.is_object() || !prepared.contains("files")) return std::nullopt;
  for (const auto& [name, bytes] : prepared["files"].items()) {
    std::error_code failure;
    if (!bytes.is_number() || fs::file_size(folder / name, failure) != bytes.get<uintmax_t>() || failure)
      return std::nullopt;
  }
  if (!has_all_ids(prepared)) return std::nullopt;
  return std::make_optional(prepared);
}

void publish_prepared(FolderDraft& draft, Json prepared) {
  for (const auto& entry : fs::directory_iterator(draft.path()))
    prepared["files"][entry.path().filename().string()] = entry.file_size();
  if (!has_all_ids(prepared))
    throw Error(ExitStatus::storage, draft.path().string() +
                                         " does not have the size that was written: another program changed it, or the "
                                         "file system lost data; run the command again");
  write_new_file(draft.path() / "prepared.json", prepared.dump(2) + "\n");
  try {
    rename_durably(draft.path(), draft.target());
  } catch (const Error&) {
    if (read_prepared(draft.target())) return;
    remove_folder(draft.target());
    rename_durably(draft.path(), draft.target());
  }
}

}  // namespace wmtp
