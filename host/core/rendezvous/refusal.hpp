// Refusal: how a rank that cannot start lets the others know, which else would wait for it until their timeout. Knows
// no LibTorch.
//
// Ranks meet by the place that each sets under its own key, and the places of all that rank 0 hands out. A refusal
// stands where a place, or the places, would stand.
#pragma once

#include <optional>
#include <string>

#include "base/error.hpp"
#include "core/rendezvous/rank_environment.hpp"

namespace wmtp {

std::string place_key(int rank);
inline constexpr const char* places_key = "places";

/// With the rank's number before the error's text.
std::string refusal_text(int rank, const Error& error);
/// Nothing for a text that is no refusal.
std::optional<Error> refusal_in(const std::string& text);

/// For a rank that ends before it has met the others: takes some seconds at most. Nothing where the launcher ends the
/// others itself: our own, and torchrun.
void tell_refusal(const RankEnvironment& environment, const Error& error) noexcept;

}  // namespace wmtp
