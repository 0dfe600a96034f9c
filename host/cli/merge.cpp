// `checkpoint merge ADAPTER`: an adapter worked into its base.
#include <memory>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/log.hpp"
#include "cli/command.hpp"
#include "core/checkpoints/adapter_identity.hpp"
#include "core/formats/hf/lora_options.hpp"
#include "core/formats/hf/params_file.hpp"
#include "core/job/engine_process.hpp"
#include "core/plugins/catalog.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

constexpr const char* merge_help =
    "work an adapter into the model that it was trained beside\n\n"
    "ADAPTER is the folder adapter/ of a run, or what `checkpoint import` makes of a PEFT adapter.\n"
    "MODEL is the one that it was trained beside, as a run or `checkpoint import` leaves it: another\n"
    "one is refused by its fingerprint. What is written is a model for [model] weights, `generate`,\n"
    "`eval` and `checkpoint export`. A run leaves its model with the adapter merged already.\n\n"
    "example:\n"
    "  wmtp-host checkpoint merge llama-adapter --base llama -o llama-merged\n";

struct Options {
  std::string adapter, base, target;
};

fs::path adapter_in(const fs::path& folder) {
  for (const fs::path& place : {folder, folder / "adapter"})
    if (is_there(place / adapter_identity_name)) return place;
  throw Error(ExitStatus::data, folder.string() + " holds no adapter: wanted " + adapter_identity_name +
                                    ", which a run with an adapter leaves in adapter/, and `wmtp-host checkpoint "
                                    "import` makes of a PEFT adapter");
}

int merge(const Options& options, const GlobalOptions& globals) {
  const fs::path adapter = adapter_in(options.adapter);
  if (!is_there(fs::path(options.base) / params_file_name))
    throw Error(ExitStatus::data,
                options.base + " holds no model of this program: wanted " + params_file_name +
                    ", as in a run's model/; `wmtp-host checkpoint import` makes one of other models");
  if (is_there(options.target))
    throw Error(ExitStatus::usage, "-o " + options.target + " is there already; name another folder");
  const OptionValues values = option_values(read_saved_lora(adapter).options);
  merge_with_engine(
      {adapter, options.base, options.target, {Catalog(globals.plugin_folders).describe("adapter", "lora"), values}});
  log_info("wrote " + options.target);
  return static_cast<int>(ExitStatus::done);
}

}  // namespace

void add_merge(CommandLine& line) {
  const auto options = std::make_shared<Options>();
  auto& command = line.add("checkpoint merge", merge_help,
                           [options](const GlobalOptions& globals) { return merge(*options, globals); });
  command.add_option("ADAPTER", options->adapter, "its folder, or its run's")->required();
  command.add_option("--base", options->base, "the model that it was trained beside")->type_name("MODEL")->required();
  command.add_option("-o,--output", options->target, "the folder to write; not there yet")
      ->type_name("DIR")
      ->required();
}

}  // namespace wmtp
