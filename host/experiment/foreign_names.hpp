// What people call the keys elsewhere (Hugging Face, nanoGPT, torchtune): a mistaken key or option is answered with
// ours.
#pragma once

#include <string>
#include <string_view>

namespace wmtp {

/// The key that a name means, as in `--set` ("model.dim" for "hidden_size"); if it is no such name, the key itself
/// ("train.steps", also as "train_steps"), or the key of that name in the outermost table that has one ("optimizer.lr"
/// for "lr", "train.steps" for "steps"). Words may be joined by '-' as well as '_'. "" if none or several are meant.
std::string key_meant_by(std::string name);

/// "write dim in [model]", with what differs; "" if no key is meant.
std::string advice_for_foreign_name(std::string_view name);

/// The option of our LoRA that another program's name means ("rank" for "r"); "" if none.
std::string lora_option_meant_by(std::string_view name);

}  // namespace wmtp
