#include "core/tokenizer/tokenizer_files.hpp"

#include <nlohmann/json.hpp>
#include <string>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/sha256.hpp"
#include "io/durable_file.hpp"
#include "io/input_file.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

using Json = nlohmann::json;

fs::path config_path(const fs::path& file) { return file.parent_path() / tokenizer_config_name; }

bool has_config(const fs::path& file) { return is_there(config_path(file)); }

Json read_config(const fs::path& file) {
  const std::string where = config_path(file).string();
  Json config = parse_strict_json(read_small_file(where, max_tokenizer_bytes), where);
  if (!config.is_object()) throw Error(ExitStatus::data, where + ": wanted an object");
  return config;
}

/// The text of a token, which is written as a string or as an object; "" if it is not named.
std::string token_of(const Json& config, const std::string& key) {
  Json value = config.value(key, Json());
  if (value.is_object()) value = value.value("content", Json());
  return value.is_string() ? value.get<std::string>() : std::string();
}

/// The template in tokenizer_config.json; "" if there is none.
std::string template_in(const Json& config, const std::string& where) {
  const Json found = config.value("chat_template", Json());
  if (found.is_null()) return {};
  if (found.is_string()) return found.get<std::string>();
  for (const Json& one : found.is_array() ? found : Json::array())
    if (one.is_object() && one.value("name", Json()) == "default" && one.value("template", Json()).is_string())
      return one["template"].get<std::string>();
  throw Error(ExitStatus::data, where + ": chat_template: wanted a string, or a list with one named \"default\"");
}

void copy_one(const fs::path& from, const fs::path& to) {
  write_new_file(to, read_small_file(from, max_tokenizer_bytes));
}

}  // namespace

bool is_tokenizer_json(const fs::path& file) { return file.extension() == ".json"; }

fs::path tokenizer_file_in(const fs::path& folder) {
  return folder / (is_there(folder / tokenizer_json_name) ? tokenizer_json_name : tokenizer_model_name);
}

std::optional<TokenizerConfigFile> read_tokenizer_config(const fs::path& file) {
  if (!has_config(file)) return std::nullopt;
  const std::string where = config_path(file).string();
  const Json config = read_config(file);
  const auto flag = [&](const char* key, bool fallback) {
    const Json value = config.value(key, Json());
    if (value.is_null()) return fallback;
    if (!value.is_boolean())
      throw Error(ExitStatus::data, where + ": " + key + " is " + value.dump() + ", wanted true or false");
    return value.get<bool>();
  };
  if (!is_tokenizer_json(file) && flag("add_eos_token", false))
    throw Error(ExitStatus::data,
                where + ": add_eos_token is true, wanted false: a prompt would end with the token that ends a text");
  // As in transformers: other classes leave the spaces to tokenizer.json.
  const Json name = config.value("tokenizer_class", Json());
  const bool is_llama = name.is_string() && name.get<std::string>().find("LlamaTokenizer") != std::string::npos;
  return TokenizerConfigFile{token_of(config, "bos_token"), token_of(config, "eos_token"), flag("add_bos_token", true),
                             flag("split_special_tokens", false), !is_llama || flag("add_prefix_space", true)};
}

std::optional<ChatTemplateFile> read_chat_template(const fs::path& file) {
  const Json config = has_config(file) ? read_config(file) : Json::object();
  const fs::path own = file.parent_path() / chat_template_name;
  ChatTemplateFile found{"", {}, is_there(own) ? own : config_path(file)};
  found.text =
      is_there(own) ? read_small_file(own, max_tokenizer_bytes) : template_in(config, config_path(file).string());
  if (found.text.empty()) return std::nullopt;
  for (const auto& [key, value] : config.items())
    if (const std::string token = token_of(config, key); key.ends_with("_token") && !token.empty())
      found.tokens[key] = token;
  return found;
}

std::string llama_tokenizer_config(bool begins_texts) {
  return nlohmann::json{{"add_bos_token", begins_texts},
                        {"add_prefix_space", begins_texts},
                        {"bos_token", "<s>"},
                        {"eos_token", "</s>"},
                        {"legacy", false},
                        {"tokenizer_class", "LlamaTokenizer"},
                        {"unk_token", "<unk>"}}
             .dump(2) +
         "\n";
}

void copy_tokenizer_files(const fs::path& file, const fs::path& folder) {
  copy_one(file, folder / (is_tokenizer_json(file) ? tokenizer_json_name : tokenizer_model_name));
  for (const char* name : {tokenizer_config_name, chat_template_name})
    if (is_there(file.parent_path() / name)) copy_one(file.parent_path() / name, folder / name);
}

std::string tokenizer_hash(const fs::path& file) {
  std::string hash = sha256_of_file(file);
  for (const char* name : {tokenizer_config_name, chat_template_name})
    if (is_there(file.parent_path() / name)) hash += " " + sha256_of_file(file.parent_path() / name);
  return hash;
}

}  // namespace wmtp
