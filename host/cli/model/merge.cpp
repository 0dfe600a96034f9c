// `checkpoint merge ADAPTER`: merges an adapter into its base model.

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/log.hpp"
#include "checkpoint/adapter_identity.hpp"
#include "checkpoint/base_model.hpp"
#include "cli/command.hpp"
#include "huggingface/hf_config.hpp"
#include "huggingface/lora_options.hpp"
#include "huggingface/params_file.hpp"
#include "job/engine_process.hpp"
#include "job/find_model.hpp"
#include "plugins/catalog.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

constexpr const char* merge_help =
    "merge an adapter into its base model\n\n"
    "ADAPTER is the folder adapter/ of a run, an adapter of `checkpoint import`, or a checkpoint step-NNNNNN/,\n"
    "which names its base itself. MODEL is its base model, as saved by a run or by `checkpoint import`. The model\n"
    "saved by a run with an adapter is merged already.\n\n"
    "examples:\n"
    "  wmtp-host checkpoint merge llama-adapter --base llama -o llama-merged\n"
    "  wmtp-host checkpoint merge runs/5-lora/step-000400 -o lora-at-400\n";

struct Options {
  std::string adapter, base, target;
};

fs::path adapter_in(const fs::path& folder) {
  for (const fs::path& place : {folder, folder / "adapter"})
    if (is_there(place / adapter_identity_name)) return place;
  throw Error(ExitStatus::data, folder.string() + " contains no adapter: wanted " + adapter_identity_name +
                                    ", which a run with an adapter saves in adapter/, and `wmtp-host checkpoint "
                                    "import` writes for a PEFT adapter");
}

int merge(const Options& options, const GlobalOptions& globals) {
  const Catalog catalog(globals.plugin_folders);
  if (is_there(options.target))
    throw Error(ExitStatus::usage, "-o " + options.target + " already exists; choose another folder");
  if (is_partial_checkpoint(options.adapter)) {
    if (!options.base.empty())
      throw Error(ExitStatus::usage, "--base does not apply: " + options.adapter + " names its base model");
    write_complete_model(options.adapter, options.target, globals.database_or(default_database), catalog);
    log_info("wrote " + options.target);
    return int(ExitStatus::done);
  }
  if (options.base.empty())
    throw Error(ExitStatus::usage,
                "--base is missing: the base model of the adapter; see `wmtp-host checkpoint merge "
                "--help`");
  const fs::path adapter = adapter_in(options.adapter);
  if (!is_params_folder(options.base))
    throw Error(ExitStatus::data, options.base + " contains no model of this program: wanted " + params_file_name +
                                      ", as in a run's model/; `wmtp-host checkpoint import` imports other models");
  const OptionValues values = option_values(read_saved_lora(adapter).options);
  const PluginDescription lora = catalog.describe(PluginKind::adapter, lora_adapter);
  merge_with_engine({adapter, options.base, options.target, {lora, values}});
  log_info("wrote " + options.target);
  return int(ExitStatus::done);
}

}  // namespace

void add_merge(CommandLine& line) {
  auto [command, options] = line.add("checkpoint merge", merge_help, merge);
  add_option(command, "ADAPTER", options.adapter, "folder of the adapter, of its run, or of a checkpoint", required);
  add_option(command, "--base MODEL", options.base, "base model; not for a checkpoint");
  add_option(command, "-o,--output DIR", options.target, "folder to write; must not exist", required);
}

}  // namespace wmtp
