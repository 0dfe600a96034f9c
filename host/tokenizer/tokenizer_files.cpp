#include "tokenizer/tokenizer_files.hpp"

#include <map>
#include <string>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/json_text.hpp"
#include "base/log.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "io/durable_file.hpp"
#include "io/input_file.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

fs::path config_path(const fs::path& file) { return file.parent_path() / tokenizer_config_name; }

bool has_config(const fs::path& file) { return is_there(config_path(file)); }

Json read_object(const fs::path& file) {
  check_link_stays_inside(file);
  Json object = parse_strict_json(read_small_file(file, max_tokenizer_bytes), file.string());
  if (!object.is_object()) throw Error(ExitStatus::data, file.string() + ": wanted an object");
  return object;
}

Json read_config(const fs::path& file) { return read_object(config_path(file)); }

/// The text of a token, which is written as a string or as an object; "" if it is not named.
std::string token_of(const Json& config, const std::string& key) {
  Json value = config.value(key, Json());
  if (value.is_object()) value = value.value("content", Json());
  return value.is_string() ? value.get<std::string>() : std::string();
}

/// Sets the templates in tokenizer_config.json.
void read_templates(const Json& config, const std::string& where, ChatTemplateFile& read) {
  const Json found = config.value("chat_template", Json());
  if (found.is_null()) return;
  if (found.is_string()) read.text = found.get<std::string>();
  for (const Json& one : found.is_array() ? found : Json::array()) {
    const Json name = one.is_object() ? one.value("name", Json()) : Json(), text = token_of(one, "template");
    if (name == "default") read.text = text;
    if (name == "tool_use") read.with_tools = text;
  }
  if (read.text.empty() && !found.is_string())
    throw Error(ExitStatus::data, where + ": chat_template: wanted a string, or a list with one named \"default\"");
}

/// Where transformers writes a second template beside chat_template.jinja.
fs::path tool_use_template_file(const fs::path& file) {
  const fs::path tool_use_file = file.parent_path() / "additional_chat_templates" / "tool_use.jinja";
  return is_there(file.parent_path() / chat_template_name) && is_there(tool_use_file) ? tool_use_file : fs::path();
}

void read_named_tokens(const Json& config, TokenizerConfigFile& file) {
  const auto add = [&](const Json& list, const auto& key) {
    const std::string token = token_of(list, key);
    if (token.empty()) return;
    file.named.push_back(token);
    if (std::string_view(key) == "pad_token") file.pad_token = token;
  };
  for (const auto& [key, value] : config.items()) {
    if (key.ends_with("_token")) add(config, key);
    if (key != "additional_special_tokens" && key != "extra_special_tokens" && key != "model_specific_special_tokens")
      continue;
    for (const Json& one : value.is_structured() ? value : Json::array()) add(Json{{key, one}}, key);
  }
}

void read_older_files(const fs::path& folder, const Json& config, TokenizerConfigFile& file) {
  const fs::path map = folder / "special_tokens_map.json", added = folder / "added_tokens.json";
  if (is_there(map)) {
    const Json tokens = read_object(map);
    for (const auto& [key, value] : tokens.items()) {
      const std::string own = token_of(config, key), other = token_of(tokens, key);
      if (!own.empty() && !other.empty() && own != other)
        throw Error(ExitStatus::data, map.string() + ": " + printable(key) + " is " + printable(other) + ", but " +
                                          printable(own) + " in " + tokenizer_config_name +
                                          "; transformers takes the first one; write the right one into both");
    }
    read_named_tokens(tokens, file);
  }
  const Json ids = is_there(added) ? read_object(added) : Json::object();
  for (const auto& [content, id] : ids.items()) file.named.push_back(content);
}

/// The tokens that a template may write by their names.
std::map<std::string, std::string> template_tokens(const Json& config) {
  std::map<std::string, std::string> tokens;
  const auto add = [&](const Json& list, const std::string& key) {
    if (const std::string token = token_of(list, key); !token.empty()) tokens[key] = token;
  };
  for (const auto& [key, value] : config.items())
    if (key.ends_with("_token")) add(config, key);
  for (const char* own : {"extra_special_tokens", "model_specific_special_tokens"})
    if (const Json named = config.value(own, Json()); named.is_object())
      for (const auto& [key, value] : named.items()) add(named, key);
  return tokens;
}

/// transformers would take them from the older file, which no hash and no copy of a tokenizer has.
void refuse_tokens_of_map(const fs::path& folder, const Json& config, const ChatTemplateFile& found) {
  const fs::path map = folder / "special_tokens_map.json";
  if (config.contains("added_tokens_decoder") || !is_there(map)) return;
  const Json tokens = read_object(map);
  for (const auto& [key, value] : tokens.items())
    if (const std::string token = token_of(tokens, key);
        !token.empty() && !found.tokens.contains(key) && (found.text + found.with_tools).find(key) != std::string::npos)
      throw Error(ExitStatus::data, map.string() + ": " + printable(key) + " is " + printable(token) +
                                        ", which the chat template writes and " + tokenizer_config_name +
                                        " lacks; write it there, too");
}

/// The tokens that transformers would add to a tokenizer.json.
void read_tokens(const Json& config, const std::string& where, TokenizerConfigFile& file) {
  Json decoder = config.value("added_tokens_decoder", Json());
  if (!decoder.is_object()) decoder = Json::object();
  for (const auto& [id, token] : decoder.items()) {
    const auto number = parsed_number<int64_t>(id);
    if (!number || token_of(decoder, id).empty())
      throw Error(ExitStatus::data, where + ": added_tokens_decoder: wanted ids, each with a token that has a content");
    const auto is = [&](const char* key, bool fallback) {
      const Json value = token.is_object() ? token.value(key, Json()) : Json();
      return value.is_boolean() ? value.get<bool>() : fallback;
    };
    file.added.push_back({*number, token_of(decoder, id), is("normalized", !is("special", false)), is("lstrip", false),
                          is("rstrip", false), is("single_word", false)});
  }
  read_named_tokens(config, file);
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
      throw Error(ExitStatus::data, where + ": " + key + " is " + json_text(value) + ", wanted true or false");
    return value.get<bool>();
  };
  if (!is_tokenizer_json(file) && flag("add_eos_token", false))
    throw Error(ExitStatus::data,
                where + ": add_eos_token is true, wanted false: a prompt would end with the token that ends a text");
  // As in transformers: other classes leave the spaces to tokenizer.json.
  const Json name = config.value("tokenizer_class", Json());
  const bool is_llama = name.is_string() && name.get<std::string>().find("LlamaTokenizer") != std::string::npos;
  const bool is_gpt2 = name.is_string() && name.get<std::string>().starts_with("GPT2Tokenizer");
  TokenizerConfigFile read{token_of(config, "bos_token"), token_of(config, "eos_token"), flag("add_bos_token", true),
                           flag("split_special_tokens", false), !is_llama || flag("add_prefix_space", true)};
  if (is_gpt2) read.byte_level_prefix = flag("add_prefix_space", false);
  read_tokens(config, where, read);
  if (!config.contains("added_tokens_decoder")) read_older_files(file.parent_path(), config, read);
  return read;
}

std::optional<ChatTemplateFile> read_chat_template(const fs::path& file) {
  const Json config = has_config(file) ? read_config(file) : Json::object();
  const fs::path own = file.parent_path() / chat_template_name;
  if (is_there(own)) check_link_stays_inside(own);
  ChatTemplateFile found{"", "", tool_use_template_file(file), {}, is_there(own) ? own : config_path(file)};
  if (is_there(own))
    found.text = read_small_file(own, max_tokenizer_bytes);
  else
    read_templates(config, config_path(file).string(), found);
  if (found.text.empty()) return std::nullopt;
  found.tokens = template_tokens(config);
  refuse_tokens_of_map(file.parent_path(), config, found);
  return found;
}

std::string llama_tokenizer_config(bool begins_texts) {
  return Json{{"add_bos_token", begins_texts},
              {"add_prefix_space", begins_texts},
              {"bos_token", "<s>"},
              {"eos_token", "</s>"},
              {"legacy", false},
              {"tokenizer_class", "LlamaTokenizer"},
              {"unk_token", "<unk>"}}
             .dump(2) +
         "\n";
}

bool copy_from_folder(const fs::path& from, const char* name, const fs::path& to) {
  if (!is_there(from / name)) return false;
  check_link_stays_inside(from / name);
  copy_one(from / name, to / name);
  return true;
}

void copy_tokenizer_files(const fs::path& file, const fs::path& folder) {
  if (const fs::path tool_use_file = tool_use_template_file(file); !tool_use_file.empty())
    log_warning(tool_use_file.string() + " is not copied into " + folder.string() +
                ", whose chat template will be that of chats without tools");
  copy_one(file, folder / (is_tokenizer_json(file) ? tokenizer_json_name : tokenizer_model_name));
  for (const char* name : {tokenizer_config_name, chat_template_name})
    copy_from_folder(file.parent_path(), name, folder);
}

std::string tokenizer_hash(const fs::path& file) {
  std::string hash = file_sha256_hex(file);
  for (const char* name : {tokenizer_config_name, chat_template_name})
    if (is_there(file.parent_path() / name)) hash += " " + file_sha256_hex(file.parent_path() / name);
  return hash;
}

}  // namespace wmtp
