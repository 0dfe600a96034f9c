#include "huggingface/model_export.hpp"

#include "base/embedded.hpp"
#include "base/files.hpp"
#include "checkpoint/tensor_check.hpp"
#include "huggingface/hf_config.hpp"
#include "huggingface/params_file.hpp"
#include "huggingface/tensor_stream.hpp"
#include "io/durable_file.hpp"
#include "io/input_file.hpp"
#include "model/model_tensors.hpp"
#include "tokenizer/tokenizer_export.hpp"
#include "tokenizer/tokenizer_files.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

constexpr size_t main_file = 0, heads_file = 1;

TensorCopy::Target copy_target(const ModelTensor& tensor, ModelFormat format) {
  if (format == ModelFormat::meta) return {main_file, tensor.name};
  return tensor.hf_name.empty() ? TensorCopy::Target{heads_file, tensor.name}
                                : TensorCopy::Target{main_file, tensor.hf_name};
}

/// Every tensor of the model with its targets. Error(data) if one is missing, misshapen or unexpected.
std::vector<TensorCopy> plan_copies(const ModelExport& request, const SavedShape& saved,
                                    const SafetensorsFolder& files) {
  TensorCheck check(files);
  std::vector<TensorCopy> moves;
  for (const ModelTensor& tensor : model_tensors(saved.model)) {
    const auto place = check.take(tensor.name, tensor.shape);
    if (!place) continue;
    TensorCopy move{*place, {copy_target(tensor, request.format)}, tensor.shape, request.dtype};
    if (request.format == ModelFormat::meta && saved.model.tie_word_embeddings && tensor.name == embedding_weight)
      move.targets.push_back({main_file, output_weight});  // Meta's code does not tie embeddings
    if (request.format == ModelFormat::hf && !tensor.hf_name.empty())
      move.reorder(RowOrder::pairs_to_halves, tensor.rotary_heads, tensor.shape[0]);
    moves.push_back(std::move(move));
  }
  check.check_rest(is_of_value_head);
  refuse_tensors(request.model.string(), check.mistakes(),
                 "specify a complete model: a run's model folder, or an imported one");
  for (const std::string& name : files.names())
    if (is_of_value_head(name)) {
      const StoredTensor place = *files.find(name);
      moves.push_back(
          {place, {{request.format == ModelFormat::hf ? heads_file : main_file, name}}, place.entry->shape});
    }
  return moves;
}

/// Names the tensors of the main file alone: vLLM, which would load every safetensors file of the folder, then leaves
/// the other heads out.
void write_index(const std::vector<TensorCopy>& moves, const fs::path& folder) {
  Json files = Json::object();
  for (const TensorCopy& move : moves)
    for (const TensorCopy::Target& target : move.targets)
      if (target.file == main_file) files[target.name] = hf_model_name;
  const Json index{{"metadata", {{"total_size", fs::file_size(folder / hf_model_name)}}}, {"weight_map", files}};
  write_new_file(folder / safetensors_index_name, pretty_json(index));
}

bool needs_heads_file(const SavedShape& saved) { return saved.model.future_tokens > 1 || !saved.value_heads.empty(); }

std::vector<std::string> file_names(const ModelExport& request, const SavedShape& saved) {
  if (request.format == ModelFormat::meta) return {"consolidated.00.safetensors"};
  if (needs_heads_file(saved)) return {hf_model_name, heads_tensors_name};
  return {hf_model_name};
}

void write_modeling(Json& config, const fs::path& folder) {
  const auto& [name, text] = *embedded_modeling().begin();
  config["auto_map"] = {{"AutoModelForCausalLM", fs::path(name).stem().string() + ".MultiTokenForCausalLM"}};
  const std::string placeholder = "BASE_CLASS";
  std::string code = text;
  code.replace(code.find(placeholder), placeholder.size(), config["architectures"][0].get<std::string>());
  write_new_file(folder / name, code);
}

void write_descriptions(const ModelExport& request, const SavedShape& saved, const fs::path& folder) {
  if (request.format == ModelFormat::meta) return write_new_file(folder / params_file_name, params_text(saved));
  Json config = hf_config_json(saved.model, request.dtype);
  config["bos_token_id"] = saved.bos_token_id;
  config["eos_token_id"] = saved.eos_token_id;
  if (request.modeling) write_modeling(config, folder);
  write_new_file(folder / hf_config_name, pretty_json(config));
  if (!needs_heads_file(saved)) return;
  Json heads{{"format_version", heads_format_version},
             {"n_future_tokens", saved.model.future_tokens},
             {"value_heads", saved.value_heads}};
  add_heads_json(saved.model, heads);
  write_new_file(folder / heads_identity_name, pretty_json(heads));
}

bool is_byte_level(const fs::path& tokenizer_json) {
  const Json found = Json::parse(read_small_file(tokenizer_json, max_tokenizer_bytes), nullptr,
                                 /*allow_exceptions=*/false);
  const Json model = found.is_object() && found.contains("model") ? found["model"] : Json();
  const auto is = [&](const char* key, const Json& value) { return model.contains(key) && model[key] == value; };
  return model.is_object() && is("type", "BPE") && !is("byte_fallback", true);
}

/// Transformers 5 rebuilds a tokenizer.json by the class that its configuration names (GPT2Tokenizer splits texts by
/// GPT-2's pattern, LlamaTokenizer writes no space after a special token, whatever the file says), so that its ids
/// would differ from those of the training. The general class reads the file as it is. A Llama's add_prefix_space =
/// false, which the training follows, needs its class.
void write_tokenizer_config(const fs::path& from, const fs::path& to) {
  constexpr const char *class_key = "tokenizer_class", *general_class = "PreTrainedTokenizerFast";
  OrderedJson config = OrderedJson::parse(read_small_file(from / tokenizer_config_name, max_tokenizer_bytes), nullptr,
                                          /*allow_exceptions=*/false);
  const std::string name =
      config.is_object() && config.contains(class_key) && config[class_key].is_string() ? config[class_key] : "";
  const bool needs_class = name.find("LlamaTokenizer") != name.npos && config.contains("add_prefix_space") &&
                           config["add_prefix_space"] == false && !is_byte_level(from / tokenizer_json_name);
  if (!config.is_object() || name == general_class || needs_class) {
    copy_from_folder(from, tokenizer_config_name, to);
    return;
  }
  config[class_key] = general_class;
  write_new_file(to / tokenizer_config_name, config.dump(2) + "\n");
}

/// Whether there was a tokenizer to copy.
bool copy_tokenizer(const fs::path& from, const fs::path& to) {
  bool copied = false;
  for (const char* name : {tokenizer_model_name, tokenizer_json_name})
    if (copy_from_folder(from, name, to)) copied = true;
  if (is_there(from / tokenizer_config_name) && is_there(from / tokenizer_json_name))
    write_tokenizer_config(from, to);
  else
    copy_from_folder(from, tokenizer_config_name, to);
  return copied;
}

void write_json_tokenizer(const fs::path& folder, const Json& tokenizer, const char* begin, const char* end) {
  write_new_file(folder / tokenizer_json_name, tokenizer.dump() + "\n");
  write_new_file(folder / tokenizer_config_name, pretty_json(exported_tokenizer_config(begin, end)));
}

/// For this program's own tokenizers, writes a tokenizer_config.json (unlike Llama's, they prepend no BOS) and a
/// tokenizer.json, because transformers would derive other ids from the SentencePiece model. Returns whether it did.
bool write_own_tokenizer(const SavedShape& saved, const fs::path& folder) {
  if (saved.tokenizer == SavedTokenizer::byte) {
    write_json_tokenizer(folder, byte_tokenizer_json(), byte_begin_token, byte_end_token);
    return true;
  }
  const bool is_own = saved.tokenizer == SavedTokenizer::bpe && !is_there(folder / tokenizer_config_name);
  if (!is_own || !is_there(folder / tokenizer_model_name)) return false;
  const auto tokenizer = sentencepiece_tokenizer_json(folder / tokenizer_model_name);
  if (tokenizer)
    write_json_tokenizer(folder, *tokenizer, "<s>", "</s>");
  else
    write_new_file(folder / tokenizer_config_name, llama_tokenizer_config(/*begins_texts=*/false));
  return true;
}

}  // namespace

void copy_chat_files(const fs::path& from, const fs::path& to) {
  for (const char* name : {chat_template_name, generation_config_name})
    if (!is_there(to / name)) copy_from_folder(from, name, to);
}

bool export_tokenizer(const fs::path& model, const SavedShape& saved, const fs::path& target) {
  const bool copied = copy_tokenizer(model, target), made = write_own_tokenizer(saved, target);
  copy_chat_files(model, target);
  return copied || made;
}

ExportedModel export_model(const ModelExport& request) {
  const SafetensorsFolder files(request.model);
  SavedShape saved = read_params(request.model, files);
  if (!saved.value_heads.empty() && !predicts_tokens(saved, files))
    throw Error(ExitStatus::data, request.model.string() +
                                      ": it has value heads and predicts no tokens, which these formats do not "
                                      "support; export the policy instead");
  if (request.modeling && saved.model.future_tokens == 1)
    throw Error(ExitStatus::usage, request.model.string() +
                                       ": it has one head, which transformers computes itself; export it without "
                                       "--modeling");
  if (!saved.has_max_sequence_length) saved.model.max_sequence_length = default_sequence_length;
  std::vector<TensorCopy> moves = plan_copies(request, saved, files);
  const SourceChecksums sums(request.model, ManifestKind::model);
  OutputFolder product(request.target);
  copy_tensors(moves, product.path(), file_names(request, saved), sums);
  if (request.format == ModelFormat::hf && needs_heads_file(saved)) write_index(moves, product.path());
  write_descriptions(request, saved, product.path());
  const bool has_tokenizer = request.format == ModelFormat::hf ? export_tokenizer(request.model, saved, product.path())
                                                               : copy_tokenizer(request.model, product.path());
  product.publish();
  return {has_tokenizer, saved.model.future_tokens, saved.has_max_sequence_length};
}

}  // namespace wmtp
