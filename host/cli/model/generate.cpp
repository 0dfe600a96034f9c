// `generate RUN`: text from a trained model. Streams the text to stdout, and prints statistics to stderr.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <iostream>
#include <sstream>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/json_text.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "cli/command.hpp"
#include "data/records/record_format.hpp"
#include "data/text/json_lines.hpp"
#include "experiment/prompt_templates.hpp"
#include "job/engine_process.hpp"
#include "job/find_model.hpp"

namespace wmtp {
namespace {

constexpr const char* generate_help =
    "generate text from a trained model\n\n"
    "Continues the prompt, in one process on the CPU; greedily unless --temperature is given, with drafts of the\n"
    "other heads, which leave the text as it is. The same seed samples the same text.\n\n"
    "--chat asks a model that was trained on chats or other records, by the template of training (data.template),\n"
    "which also ends the answer. --chat-file has several turns: a JSON list of messages, {\"role\": …,\n"
    "\"content\": …}, or an object {\"messages\": …, \"tools\": …}.\n\n"
    "examples:\n"
    "  wmtp-host generate rho1 \"def main(\"\n"
    "  wmtp-host generate runs/2-rho1/model --prompt \"import \" --max-tokens 40 --temperature 0.8 --top-p 0.95\n"
    "  wmtp-host generate 2 --prompt-file begun.py --plain --json\n"
    "  wmtp-host generate rho1@140 \"def main(\"\n"
    "  wmtp-host generate rho1 \"def main(\" --compare\n"
    "  wmtp-host generate tokens --ids \"17 4 9\"\n"
    "  wmtp-host generate tuned --chat \"What is 12 + 30?\" --system \"Answer with a number.\"\n"
    "  wmtp-host generate tuned --chat-file turns.json --max-tokens 500\n";

struct Options {
  std::string run, words, prompt, prompt_file, ids, chat, chat_file, system, dtype = "fp32";
  GenerateRequest request;
  bool json = false;
  /// To know which were given: an empty text is valid.
  CLI::Option *words_given = nullptr, *prompt_given = nullptr, *file_given = nullptr, *ids_given = nullptr;
  CLI::Option *chat_given = nullptr, *chat_file_given = nullptr, *system_given = nullptr, *template_given = nullptr;
  CLI::Option *top_p_given = nullptr, *seed_given = nullptr;
};

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ExitStatus::usage, message + "; see `wmtp-host generate --help`");
}

std::vector<int64_t> parsed_ids(const std::string& text) {
  std::vector<int64_t> ids;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const auto id = parsed_number(word);
    if (!id) refuse("--ids: '" + word + "' is not a valid id; wanted integers separated by spaces");
    ids.push_back(*id);
  }
  return ids;
}

std::string read_whole_file(const char* option, const std::string& file) {
  try {
    check_is_file(file, ExitStatus::usage);
  } catch (const Error& error) {
    refuse(std::string(option) + ": " + error.what());
  }
  std::ifstream in(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in.is_open() || in.bad()) refuse(std::string(option) + ": cannot read " + file);
  return text;
}

/// The chat of a JSON text: a list of messages, or an object with messages and tools.
Prompt parsed_chat(const std::string& text, const std::string& where) {
  const auto fail = [&](const std::string& what) { throw Error(ExitStatus::data, where + ": " + what); };
  const bool is_list = parse_strict_json(text, where).is_array();
  static const std::string format = "messages";
  Prompt chat;
  try {
    const OrderedJson object = ordered_object(is_list ? "{\"messages\": " + text + "}" : text);
    const RecordFields::Refuse refuse_field = [&](const std::string& field, const OrderedJson* found,
                                                  const std::string& wanted) {
      fail(field + ": " + (found ? "found " + found_text(Json(*found)) : "missing") + ", wanted " + wanted);
    };
    RecordFields(format, object, refuse_field).read_prompt(chat);
  } catch (const LineMistake& mistake) {
    fail(mistake.message);
  }
  return chat;
}

Prompt taken_chat(const Options& options) {
  Prompt chat;
  if (options.chat_given->count() > 0) {
    check_is_utf8(options.chat, "--chat");
    if (options.chat.empty()) refuse("--chat is empty; wanted a question");
    chat.instruction = options.chat;
    make_chat(chat);
  } else if (options.chat_file == "-") {
    chat = parsed_chat({std::istreambuf_iterator<char>(std::cin), {}}, "standard input");
  } else {
    chat = parsed_chat(read_whole_file("--chat-file", options.chat_file), options.chat_file);
  }
  if (options.system_given->count() == 0) return chat;
  check_is_utf8(options.system, "--system");
  add_system_prompt(chat, options.system);
  return chat;
}

void take_prompt(const Options& options, GenerateRequest& request) {
  const auto given = {options.words_given, options.prompt_given, options.file_given,
                      options.ids_given,   options.chat_given,   options.chat_file_given};
  const auto count = std::count_if(given.begin(), given.end(), [](const auto* one) { return one->count() > 0; });
  if (count != 1)
    refuse(std::string(count == 0 ? "the prompt is missing" : "found more than one prompt") +
           "; wanted one of PROMPT, --prompt TEXT, --prompt-file FILE, --ids IDS, --chat TEXT, --chat-file FILE");
  const bool is_chat = options.chat_given->count() + options.chat_file_given->count() > 0;
  for (const CLI::Option* option : {options.system_given, options.template_given})
    if (option->count() > 0 && !is_chat) refuse(option->get_name() + " requires --chat or --chat-file");
  if (is_chat)
    request.chat = taken_chat(options);
  else if (options.ids_given->count() > 0)
    request.ids = parsed_ids(options.ids);
  else if (options.file_given->count() > 0)
    request.text = read_whole_file("--prompt-file", options.prompt_file);
  else
    request.text = options.prompt_given->count() > 0 ? options.prompt : options.words;
}

void check_numbers(const Options& options) {
  const GenerateRequest& request = options.request;
  const auto shown = [](double number) { return Json(number).dump(); };
  if (!(request.temperature >= 0) || std::isinf(request.temperature))
    refuse("--temperature is " + shown(request.temperature) + ", wanted 0 (greedy) or more");
  if (!(request.top_p > 0 && request.top_p <= 1))
    refuse("--top-p is " + shown(request.top_p) + ", wanted more than 0 and at most 1");
  for (const CLI::Option* option : {options.top_p_given, options.seed_given})
    if (option->count() > 0 && request.temperature == 0)
      refuse(option->get_name() + " requires a --temperature above 0: greedy decoding does not sample");
  if (request.compares && (request.plain || request.temperature > 0))
    refuse("--compare needs speculative decoding: neither --plain nor a --temperature above 0");
}

double per(double count, double of) { return of > 0 ? count / of : 0; }

void print_json(const Generated& result, const std::filesystem::path& model) {
  const auto tokens = double(result.ids.size());
  OrderedJson json{{"model", model.string()},
                   {"prompt_ids", result.prompt},
                   {"ids", result.ids},
                   {"text", result.text ? Json(*result.text) : Json()},
                   {"end", result.end},
                   {"decoding", result.decoding},
                   {"heads", result.heads},
                   {"tokens", result.ids.size()},
                   {"forwards", result.forwards},
                   {"forwards_with_drafts", result.drafted},
                   {"tokens_per_forward", per(tokens, double(result.forwards))},
                   {"seconds", result.seconds},
                   {"tokens_per_second", per(tokens, result.seconds)}};
  if (result.plain) {
    json["plain_forwards"] = result.plain->forwards;
    json["plain_seconds"] = result.plain->seconds;
    json["speed_up"] = per(result.plain->seconds, result.seconds);
  }
  // A text may end in the middle of a character.
  std::cout << dumped(json, 2) << '\n';
}

std::string summary_of(const Generated& result) {
  const auto tokens = double(result.ids.size());
  std::ostringstream out;
  out.precision(3);
  out << counted(int64_t(result.ids.size()), "token") << " in " << counted(result.forwards, "forward pass", "es")
      << " (" << per(tokens, double(result.forwards)) << " per pass, " << result.decoding;
  if (result.heads > 1) out << " with " << result.heads << " heads in " << counted(result.drafted, "pass", "es");
  out << "), " << result.seconds << " s, " << with_thousands(int64_t(std::llround(per(tokens, result.seconds))))
      << " tokens/s; ended by " << result.end;
  if (result.plain)
    out << "\nplain decoding gives the same ids in " << with_thousands(result.plain->forwards) << " forward passes, "
        << result.plain->seconds << " s: speed-up " << per(result.plain->seconds, result.seconds);
  return out.str();
}

int generate(Options& options, const GlobalOptions& globals) {
  check_numbers(options);
  GenerateRequest request = options.request;
  take_prompt(options, request);
  request.model = open_model(options.run, globals.database_or(default_database), globals.plugin_folders).folder;
  const bool as_ids = options.ids_given->count() > 0;
  request.streams = !as_ids && !options.json;
  request.bf16 = options.dtype == "bf16";
  const Generated result = generate_with_engine(request);
  if (options.json) {
    print_json(result, request.model);
  } else {
    for (size_t i = 0; as_ids && i < result.ids.size(); ++i) std::cout << (i ? " " : "") << result.ids[i];
    std::cout << std::endl;
  }
  log_info(summary_of(result));
  return 0;
}

}  // namespace

void add_generate(CommandLine& line) {
  auto [command, options] = line.add("generate", generate_help, generate);
  GenerateRequest& request = options.request;
  add_option(command, "RUN", options.run, model_argument, required);
  options.words_given = add_option(command, "PROMPT", options.words, "text to continue");
  options.prompt_given = add_option(command, "--prompt TEXT", options.prompt, "same as PROMPT");
  options.file_given =
      add_option(command, "--prompt-file FILE", options.prompt_file, "read the prompt from a file, byte for byte");
  options.ids_given = add_option(command, "--ids IDS", options.ids, "prompt as token ids; prints ids instead of text");
  options.chat_given = add_option(command, "--chat TEXT", options.chat, "question of a chat");
  options.chat_file_given = add_option(command, "--chat-file FILE", options.chat_file,
                                       "messages of a chat in a JSON file; - is standard input");
  options.system_given = add_option(command, "--system TEXT", options.system, "system prompt of the chat");
  options.template_given = add_option(command, "--template NAME", request.prompt_template,
                                      "template of the chat, as [data] template (default: that of training, else chat)",
                                      CLI::IsMember(prompt_templates()));
  add_option(command, "--max-tokens N", request.max_tokens, "maximum number of tokens (128)",
             CLI::Range(int64_t{1}, int64_t{1} << 20));
  add_option(command, "--temperature T", request.temperature,
             "sampling temperature: 1 samples the model's distribution, lower is sharper, 0 is greedy (0)");
  options.top_p_given = add_option(command, "--top-p P", request.top_p,
                                   "nucleus sampling: smallest set of tokens with this probability (1)");
  options.seed_given = add_option(command, "--seed S", request.seed, "sampling seed (0)");
  command.add_flag("--plain", request.plain, "one token per forward pass, without drafts");
  command.add_flag(
      "--compare", request.compares,
      "decode with drafts in every pass and without, check that the ids are equal, and print the speed-up");
  add_option(command, "--dtype", options.dtype, "data type of the weights; bf16 is faster",
             CLI::IsMember({"fp32", "bf16"}), shows_default);
  command.add_flag("--json", options.json, "print JSON, with statistics");
}

}  // namespace wmtp
