// What people call the keys elsewhere (Hugging Face, nanoGPT, torchtune): a mistaken key or option is answered with
// ours.
#pragma once

#include <string>
#include <string_view>

namespace wmtp {

/// The key that a name means, as in `--set` ("model.dim" for "hidden_size"), or, if it is one, the only table's key of
/// that name ("optimizer.lr" for "lr"). "" if none or several are meant.
std::string key_meant_by(std::string_view name);

/// "write `dim` in [model]", with what differs; "" if no key is meant.
std::string advice_for_foreign_name(std::string_view name);

}  // namespace wmtp
