// See product_folder.hpp.
#include "io/product_folder.hpp"

#include <unistd.h>

#include "base/error.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

/// "out/" names the folder `out`, beside which the draft is made.
fs::path plain(const fs::path& target) {
  const fs::path path = target.lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

}  // namespace

ProductFolder::ProductFolder(const fs::path& target) : target_(plain(target)) {
  std::error_code ignored;
  if (!target_.has_filename() || target_.filename() == ".." || target_.filename() == ".")
    throw Error(ExitStatus::usage, "-o " + target.string() + " names no new folder; give it a name of its own");
  if (fs::exists(fs::symlink_status(target_, ignored)) &&
      !(fs::is_directory(target_, ignored) && fs::is_empty(target_, ignored)))
    throw Error(ExitStatus::usage, "-o " + target.string() + " is there already and is no empty folder; name another");
  draft_.emplace(target_);
}

void ProductFolder::publish() {
  ::rmdir(target_.c_str());  // takes away an empty folder only; of anything else publishing tells
  draft_->publish();
}

}  // namespace wmtp
