// Prompt: the part of a record before its answer, also without one: what a model is asked.
#pragma once

#include <string>

#include "base/json.hpp"

namespace wmtp {

struct Prompt {
  std::string instruction, input;  ///< empty for a chat
  bool has_whole_prompt = false;   ///< `instruction` is a prompt rather than a part of one
  OrderedJson messages;            ///< of a chat, each with role and content; otherwise null
  OrderedJson tools;               ///< of a chat: descriptions of tools, or null

  bool operator==(const Prompt&) const = default;
};

/// A text that no template changes.
Prompt whole_prompt(const std::string& text);

/// For requests between our processes; a chat is sent as text, in which keys keep their order.
void to_json(Json& out, const Prompt& prompt);
void from_json(const Json& in, Prompt& prompt);

/// Makes an instruction, with its input if it has one, the message of a user.
void make_chat(Prompt& prompt);

/// Puts a system prompt before the messages; an instruction becomes a chat. Error(usage) if they begin with one.
void add_system_prompt(Prompt& prompt, const std::string& text);

}  // namespace wmtp
