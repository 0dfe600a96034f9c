#include "data/records/prompt.hpp"

#include "base/error.hpp"

namespace wmtp {

Prompt whole_prompt(const std::string& text) {
  Prompt prompt;
  prompt.instruction = text;
  prompt.has_whole_prompt = true;
  return prompt;
}

void to_json(Json& out, const Prompt& prompt) {
  out = {{"instruction", prompt.instruction},
         {"input", prompt.input},
         {"has_whole_prompt", prompt.has_whole_prompt},
         {"messages", prompt.messages.dump()},
         {"tools", prompt.tools.dump()}};
}

void from_json(const Json& in, Prompt& prompt) {
  in.at("instruction").get_to(prompt.instruction);
  in.at("input").get_to(prompt.input);
  in.at("has_whole_prompt").get_to(prompt.has_whole_prompt);
  prompt.messages = OrderedJson::parse(in.at("messages").get_ref<const std::string&>());
  prompt.tools = OrderedJson::parse(in.at("tools").get_ref<const std::string&>());
}

void make_chat(Prompt& prompt) {
  const std::string question = prompt.instruction + (prompt.input.empty() ? "" : "\n\n" + prompt.input);
  prompt.messages = {{{"role", "user"}, {"content", question}}};
}

void add_system_prompt(Prompt& prompt, const std::string& text) {
  if (!prompt.messages.is_array()) make_chat(prompt);
  if (prompt.messages[0].at("role") == "system")
    throw Error(ExitStatus::usage, "--system: the chat begins with a system message; wanted one of the two");
  prompt.messages.insert(prompt.messages.begin(), OrderedJson{{"role", "system"}, {"content", text}});
}

}  // namespace wmtp
