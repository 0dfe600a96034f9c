// See file_draft.hpp.
#include "io/file_draft.hpp"

#include "base/error.hpp"
#include "io/durable_file.hpp"

namespace wmtp {

namespace fs = std::filesystem;

FileDraft::FileDraft(const fs::path& target) : target_(target), path_(draft_path(target)) {
  std::error_code ignored;
  if (!target.has_filename() || fs::is_directory(target, ignored))
    throw Error(ExitStatus::usage, "-o " + target.string() + " names a folder; name a file that is not there yet");
  if (fs::exists(fs::symlink_status(target, ignored)))
    throw Error(ExitStatus::usage, "-o " + target.string() + " is there already; name another file, or remove it");
  make_folder_durably(target.parent_path());
  fs::remove(path_, ignored);  // of an earlier process with the same number
}

FileDraft::~FileDraft() {
  std::error_code ignored;
  fs::remove(path_, ignored);
}

void FileDraft::publish() { rename_durably(path_, target_); }

}  // namespace wmtp
