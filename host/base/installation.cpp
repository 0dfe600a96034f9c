#include "base/installation.hpp"

#include <dlfcn.h>

#include "base/error.hpp"

namespace wmtp {

std::filesystem::path library_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&library_folder), &info) == 0 || info.dli_fname == nullptr)
    throw Error(ExitStatus::bug, "cannot find the folder of libwmtp_core.so");
  return std::filesystem::weakly_canonical(info.dli_fname).parent_path();
}

std::filesystem::path own_plugin_folder() { return library_folder() / "wmtp" / "plugins"; }

std::filesystem::path experiments_folder() {
  const std::filesystem::path prefix = library_folder().parent_path();
  for (const auto& folder : {prefix / "share" / "wmtp" / "experiments", prefix.parent_path() / "experiments"})
    if (std::filesystem::is_directory(folder)) return folder;
  throw Error(ExitStatus::bug, "the experiments are missing in " + (prefix / "share" / "wmtp").string());
}

std::filesystem::path host_program() { return library_folder().parent_path() / "bin" / "wmtp-host"; }

std::filesystem::path engine_program() {
  const std::filesystem::path program = library_folder().parent_path() / "bin" / "wmtp-engine";
  if (!std::filesystem::exists(program))
    throw Error(ExitStatus::bug,
                "the engine " + program.string() +
                    " is missing; build it with `make build`, which needs LibTorch (`make setup` installs it)");
  return program;
}

}  // namespace wmtp
