#include "job/tokenizer_check.hpp"

#include <optional>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/normal_path.hpp"
#include "huggingface/initial_weights.hpp"
#include "huggingface/params_file.hpp"
#include "tokenizer/tokenizer_files.hpp"
#include "tokenizer/vocabulary_difference.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

/// The file of a tokenizer, "" for "byte"; nullopt without one, or if it is not known yet.
using TokenizerFile = std::optional<fs::path>;

TokenizerFile tokenizer_of_data(const Experiment& experiment, const fs::path& prepared) {
  const TokenizerConfig& tokenizer = experiment.data.tokenizer;
  if (!tokenizer.given) return std::nullopt;
  if (tokenizer.kind == TokenizerKind::byte) return fs::path();
  if (tokenizer.kind == TokenizerKind::file) return experiment.resolve(tokenizer.file);
  return prepared.empty() ? std::nullopt : TokenizerFile(prepared / tokenizer_model_name);
}

/// Of a folder with tokenizer.json and tokenizer.model the one of the data's kind.
TokenizerFile tokenizer_of_weights(const fs::path& weights, const fs::path& ours) {
  const auto statement = shape_statement(weights);
  const fs::path folder = statement ? statement->folder : weights;  // a file alone has none
  if (!ours.empty() && !is_tokenizer_json(ours) && is_there(folder / tokenizer_model_name))
    return folder / tokenizer_model_name;
  if (const fs::path file = tokenizer_file_in(folder); is_there(file)) return file;
  if (!statement || statement->is_hf) return std::nullopt;
  const bool is_byte = read_params(folder, SafetensorsFolder(weights)).tokenizer == SavedTokenizer::byte;
  return is_byte ? TokenizerFile(fs::path()) : std::nullopt;
}

std::string name_of(const fs::path& file) { return file.empty() ? "\"byte\"" : file.string(); }

}  // namespace

std::string tokenizer_difference(const fs::path& weights, const Experiment& experiment, const fs::path& prepared) {
  const TokenizerFile of_data = tokenizer_of_data(experiment, prepared);
  const TokenizerFile of_weights = of_data ? tokenizer_of_weights(weights, *of_data) : std::nullopt;
  if (!of_weights) return "";
  const auto difference = vocabulary_difference(*of_weights, *of_data);
  if (!difference) return "";
  return "its tokenizer " + name_of(*of_weights) + " is not the data's, " + name_of(*of_data) + ": id " +
         std::to_string(difference->id) + " is " + difference->there + " there and " + difference->here +
         " here; set [data.tokenizer] to " +
         (of_weights->empty() ? "kind = \"byte\""
                              : "kind = \"file\" and file = \"" + absolute_path(*of_weights).string() + "\"") +
         ", or choose weights that were trained with the data's tokenizer";
}

void check_frozen_tokenizer(const std::string& table, const fs::path& weights, const Experiment& experiment,
                            const fs::path& prepared) {
  if (const std::string difference = tokenizer_difference(weights, experiment, prepared); !difference.empty())
    throw Error(ExitStatus::data, "[" + table + "] " + weights.string() + ": " + difference);
}

}  // namespace wmtp
