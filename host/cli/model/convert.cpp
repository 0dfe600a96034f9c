// `checkpoint export RUN` and `checkpoint import DIR`: models and adapters in Hugging Face, Meta and PEFT formats.
#include <algorithm>
#include <iostream>
#include <memory>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/log.hpp"
#include "base/normal_path.hpp"
#include "base/shell_text.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "checkpoint/adapter_identity.hpp"
#include "checkpoint/safetensors_folder.hpp"
#include "cli/command.hpp"
#include "experiment/model_config.hpp"
#include "huggingface/eagle_export.hpp"
#include "huggingface/hf_config.hpp"
#include "huggingface/model_export.hpp"
#include "huggingface/model_import.hpp"
#include "huggingface/params_file.hpp"
#include "huggingface/peft_adapter.hpp"
#include "huggingface/rope_json.hpp"
#include "job/find_model.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

constexpr const char* export_help =
    "export a trained model or adapter to Hugging Face, Meta, EAGLE-3 or PEFT format\n\n"
    "  hf      Hugging Face Llama: the trunk with head 1 as its last layer. The other heads are written to\n"
    "          mtp_heads.safetensors, from which `checkpoint import` restores the whole model. --modeling adds\n"
    "          code with which transformers computes them too (trust_remote_code=True)\n"
    "  meta    one safetensors file with Meta's names, all heads included\n"
    "  eagle3  head 2 alone, as a draft model for the hf export of the same model (vLLM, SGLang)\n"
    "  peft    the adapter alone, for PEFT on top of the hf export of its base, the model that the run started from\n\n"
    "The model of a run with an adapter has the adapter merged.\n\n"
    "examples:\n"
    "  wmtp-host checkpoint export rho1 --modeling -o rho1-all-heads\n"
    "  wmtp-host checkpoint export runs/2-rho1 --dtype bf16 -o rho1-bf16\n"
    "  wmtp-host checkpoint export rho1 --to eagle3 -o rho1-draft\n"
    "  wmtp-host checkpoint export lora --to peft --base-name meta-llama/Llama-3.2-1B -o lora-peft\n"
    "  wmtp-host checkpoint export rho1@400 -o rho1-at-400\n";

const std::string import_help =
    "import a Hugging Face or Meta model, or a PEFT adapter, for use as [model] or [adapter] weights\n\n"
    "DIR contains a Hugging Face model (config.json, safetensors) or a Meta model (params.json, safetensors), in\n"
    "fp32, bf16 or fp16. Of Hugging Face, these families are imported; any other computation is refused:\n" +
    hf_families() +
    ".\n"
    "--future-tokens N adds heads to a model with a single one: heads 2 to N start as copies of its last block.\n"
    "Prints the tables that an experiment needs.\n\n"
    "examples:\n"
    "  wmtp-host checkpoint import Llama-2-7b-hf -o llama\n"
    "  wmtp-host checkpoint import Llama-2-7b-hf --future-tokens 4 -o llama-mtp\n"
    "  wmtp-host checkpoint import llama-peft --base llama -o llama-adapter\n";

struct Options {
  std::string source, target, format = "hf", dtype = "fp32", base, base_name;
  int64_t future_tokens = 0;
  bool modeling = false;
};

[[noreturn]] void refuse(const std::string& message, const char* command) {
  throw Error(ExitStatus::usage, message + "; see `wmtp-host checkpoint " + command + " --help`");
}

/// Folders that can be exported; either may be missing.
struct Found {
  fs::path model, adapter;
};

/// Of a model/ the run's adapter/, of a checkpoint itself.
fs::path adapter_of(const fs::path& model) {
  const fs::path own = is_training_checkpoint(model) ? model : absolute_path(model).parent_path() / "adapter";
  const bool is_runs = own == model || absolute_path(model).filename() == "model";
  return is_runs && is_there(own / adapter_identity_name) ? own : fs::path();
}

Found find_source(const std::string& source, const fs::path& database) {
  const fs::path folder = source;
  if (is_there(folder / adapter_identity_name) && !is_training_checkpoint(folder)) {
    const fs::path model = absolute_path(folder).parent_path() / "model";
    return {is_there(model) ? model : fs::path(), folder};
  }
  const FoundModel found = find_model(source, database);
  if (!found.note.empty()) log_info(found.note);
  if (!is_params_folder(found.folder))
    throw Error(ExitStatus::data, source + " is a Hugging Face model already; `wmtp-host checkpoint import " +
                                      shell_path(source) + " -o DIR` makes a model of this program");
  return {found.folder, adapter_of(found.folder)};
}

/// One line on stderr: the folder, its files and their sizes.
void log_written(const std::string& target) {
  std::vector<std::string> files;
  for (const auto& file : fs::directory_iterator(target))
    files.push_back(file.path().filename().string() + " (" + human_bytes(int64_t(file.file_size())) + ")");
  std::sort(files.begin(), files.end());
  log_info("wrote " + target + ": " + join_names(files));
}

int write_adapter(const Options& options, const Found& found) {
  if (found.adapter.empty())
    throw Error(ExitStatus::data, options.source + " has no adapter; `wmtp-host checkpoint export " +
                                      shell_path(options.source) + " -o DIR` writes its model");
  if (options.base.empty() && found.model.empty())
    refuse(options.source + " is not in a run's folder; name its base model with --base", "export");
  AdapterExport request{found.adapter, found.model, options.target};
  check_is_utf8(options.base_name, "--base-name");
  request.base_name = options.base_name;
  request.shape_is_base = !options.base.empty();
  if (request.shape_is_base) request.shape = options.base;
  export_adapter(request);
  log_written(options.target);
  return int(ExitStatus::done);
}

int export_files(const Options& options, const CLI::App& app, const GlobalOptions& globals) {
  const bool adapter = options.format == "peft";
  if (adapter && app.get_option("--dtype")->count() > 0) refuse("--dtype applies only to models", "export");
  if (options.modeling && options.format != "hf") refuse("--modeling applies only to --to hf", "export");
  if (!adapter && !options.base.empty()) refuse("--base applies only to --to peft", "export");
  if (!adapter && !options.base_name.empty()) refuse("--base-name applies only to --to peft", "export");
  const fs::path database = globals.database_or(default_database);
  Found found = find_source(options.source, database);
  if (adapter) return write_adapter(options, found);
  if (found.model.empty()) refuse(options.source + " is an adapter without a model; use --to peft", "export");
  found.model = ensure_complete_model(found.model, database, Catalog(globals.plugin_folders));
  if (options.format == "eagle3") {
    const int64_t heads =
        export_eagle({found.model, options.target, ModelFormat::hf, options.dtype == "bf16" ? "BF16" : "F32"});
    log_written(options.target);
    log_info("head 2 is a draft for the Hugging Face export of this model" +
             std::string(heads > 2 ? "; the heads after it leave by --to hf --modeling" : ""));
    return int(ExitStatus::done);
  }
  const ExportedModel exported =
      export_model({found.model, options.target, options.format == "meta" ? ModelFormat::meta : ModelFormat::hf,
                    options.dtype == "bf16" ? "BF16" : "F32", options.modeling});
  log_written(options.target);
  if (options.format == "hf" && exported.heads > 1)
    log_info("transformers computes head 1; " +
             std::string(exported.heads == 2 ? "head 2 is" : "heads 2 to " + std::to_string(exported.heads) + " are") +
             " only in mtp_heads.safetensors" +
             (options.modeling ? ", which modeling_wmtp.py reads with trust_remote_code=True" : " (see --modeling)"));
  if (!exported.has_tokenizer) log_info("the model has no tokenizer; none was written");
  if (!exported.has_sequence_length)
    log_info("the model's sequence length is unknown; max_position_embeddings is set to 2048");
  return int(ExitStatus::done);
}

/// A table for an experiment; these JSON values are valid TOML.
void print_table(const std::string& name, const OrderedJson& values) {
  std::cout << '[' << name << "]\n";
  for (const auto& [key, value] : values.items()) std::cout << key << " = " << value.dump() << '\n';
}

/// A base that only has the same shape would pass for the adapter's own; folders of it have any name.
void tell_base(const StatedBase& stated, const Options& options) {
  if (stated.name.empty()) return;
  log_info(options.source + ": " + peft_config_name + " states the base " + printable(stated.name) +
           (stated.revision.empty() ? "" : ", revision " + printable(stated.revision)) + "; --base is " + options.base +
           ", which must be the same model");
}

int read_adapter(const Options& options) {
  const ImportedAdapter adapter = import_adapter({options.source, options.base, options.target});
  log_written(options.target);
  tell_base(adapter.base, options);
  OrderedJson table{{"plugin", lora_adapter}};
  for (const auto& [key, value] : option_values(adapter.lora)) table[key] = value;
  if (!adapter.train.empty()) table["train"] = adapter.train;
  table["weights"] = absolute_text(options.target);
  print_table("adapter", table);
  return int(ExitStatus::done);
}

int import_files(const Options& options) {
  const fs::path source = options.source;
  const bool adapter = is_there(source / peft_config_name) && !is_there(source / "config.json");
  if (adapter && options.base.empty())
    refuse(options.source + " is a PEFT adapter, which needs --base MODEL: the imported base model", "import");
  if (adapter && options.future_tokens > 0)
    refuse("--future-tokens applies only to a model, not to a PEFT adapter", "import");
  if (!adapter && !options.base.empty() && !is_there(source / peft_config_name))
    refuse("--base applies only to a PEFT adapter; " + options.source + " contains no " + peft_config_name, "import");
  if (adapter) return read_adapter(options);
  const ImportedModel imported = import_model({options.source, options.target, options.future_tokens});
  const ModelConfig& model = imported.model;
  log_written(options.target);
  if (is_hf_folder(source))
    for (const std::string& difference : training_differences(source)) log_warning(options.source + ": " + difference);
  if (!imported.tokenizer_left_out.empty())
    log_warning((imported.tokenizer == SavedTokenizer::none ? "no tokenizer is imported: "
                                                            : "tokenizer.model is imported, tokenizer.json is not: ") +
                imported.tokenizer_left_out);
  OrderedJson table{{"dim", model.dim},
                    {"layers", model.layers},
                    {"heads", model.heads},
                    {"kv_heads", model.kv_heads},
                    {"ffn_dim", model.ffn_dim},
                    {"vocab_size", model.vocab_size},
                    {"future_tokens", model.future_tokens},
                    {"rope_theta", model.rope_theta},
                    {"norm_eps", model.norm_eps}};
  if (has_chained_heads(model)) table["future_heads"] = to_string(model.future_heads);
  if (!model.future_offsets.empty()) table["future_offsets"] = model.future_offsets;
  for_each_shape_option(model, [&](const ShapeOption& option, const auto& value) {
    if (value) table[option.name] = value;
  });
  table["weights"] = absolute_text(options.target);
  print_table("model", table);
  if (model.rope_scaling) print_table("model.rope_scaling", rope_scaling_json(*model.rope_scaling));
  return int(ExitStatus::done);
}

}  // namespace

void add_convert(CommandLine& line) {
  const auto options = std::make_shared<Options>();
  const auto app = std::make_shared<const CLI::App*>();
  auto& out = line.add("checkpoint export", export_help,
                       [options, app](const GlobalOptions& globals) { return export_files(*options, **app, globals); });
  *app = &out;
  add_option(out, "RUN", options->source, std::string(model_argument) + ", or an adapter's folder", required);
  add_option(out, "--to", options->format, "target format", CLI::IsMember({"hf", "meta", "eagle3", "peft"}),
             shows_default);
  add_option(out, "--dtype", options->dtype, "data type of the weights", CLI::IsMember({"fp32", "bf16"}),
             shows_default);
  out.add_flag("--modeling", options->modeling, "hf: add code that computes all heads in transformers");
  add_option(out, "--base MODEL", options->base, "base model of an adapter that is not in a run's folder");
  add_option(out, "--base-name NAME", options->base_name,
             "peft: what PEFT loads as the base model (default: the folder)");

  auto& in =
      line.add("checkpoint import", import_help, [options](const GlobalOptions&) { return import_files(*options); });
  add_option(in, "DIR", options->source, "model or adapter", required);
  add_option(in, "--future-tokens", options->future_tokens, "number of heads", CLI::Range(1, 64));
  add_option(in, "--base MODEL", options->base, "imported base model of a PEFT adapter");
  for (CLI::App* each : {&out, &in})
    add_option(*each, "-o,--output DIR", options->target, "folder to write; must not exist or be empty", required);
}

}  // namespace wmtp
