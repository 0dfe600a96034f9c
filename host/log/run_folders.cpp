#include "log/run_folders.hpp"

namespace wmtp {

std::filesystem::path run_folder_path(const std::filesystem::path& database, int64_t run_id, const std::string& name) {
  std::string safe = name;
  for (char& c : safe)
    if (c == '/' || uint8_t(c) < 0x20 || c == 0x7f) c = '-';
  return database.parent_path() / (std::to_string(run_id) + "-" + safe);
}

}  // namespace wmtp
