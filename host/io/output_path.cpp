#include "io/output_path.hpp"

#include <system_error>

#include "base/error.hpp"
#include "base/files.hpp"

namespace wmtp {

namespace fs = std::filesystem;

fs::path output_path(const std::string& option, const fs::path& target) {
  const std::string found = option + " " + target.string();
  std::error_code failure;
  const fs::file_type type = fs::status(target, failure).type();
  if (type == fs::file_type::directory) throw Error(ExitStatus::usage, found + " is a folder, wanted a file");
  if (type == fs::file_type::not_found) {
    if (fs::is_symlink(fs::symlink_status(target, failure)))
      throw Error(ExitStatus::usage, found + " is a link to a file that does not exist; remove it, or name that file");
    return target;
  }
  check_is_file(target, ExitStatus::usage);
  const fs::path file = fs::canonical(target, failure);
  if (failure) throw Error(ExitStatus::usage, found + " cannot be examined: " + failure.message());
  return file;
}

}  // namespace wmtp
