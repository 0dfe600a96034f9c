#include "io/prepared_folder.hpp"

#include "base/error.hpp"
#include "io/input_file.hpp"

namespace wmtp {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int64_t longest_prepared = 16 << 20;

std::optional<Json> read_prepared(const fs::path& folder) {
  const auto text = read_cached_file(folder / "prepared.json", longest_prepared);
  if (!text) return std::nullopt;
  const Json prepared = Json::parse(*text, nullptr, false);
  if (!prepared.is_object() || !prepared.contains("files")) return std::nullopt;
  for (const auto& [name, bytes] : prepared["files"].items()) {
    std::error_code failure;
    if (!bytes.is_number() || fs::file_size(folder / name, failure) != bytes.get<uintmax_t>() || failure)
      return std::nullopt;
  }
  return prepared;
}

void publish_prepared(FolderDraft& draft, Json prepared) {
  for (const auto& entry : fs::directory_iterator(draft.path()))
    prepared["files"][entry.path().filename().string()] = entry.file_size();
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
