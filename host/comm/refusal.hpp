// Refusal: how a rank that cannot start notifies the others, which would otherwise wait for it until their timeout.
//
// At the rendezvous each rank publishes its location under its own key, and rank 0 publishes the locations of all. A
// refusal is published instead of a location, or instead of the locations.
#pragma once

#include <optional>
#include <string>

#include "base/error.hpp"
#include "comm/rank_environment.hpp"

namespace wmtp {

std::string location_key(int rank);
inline constexpr const char* locations_key = "locations";

/// The error with its rank in front of the message.
Error named_by_rank(int rank, const Error& error);
std::string refusal_text(const Error& error);
/// The same for a rank that may have no failure, then "". Rank 0 is not named, because it reports for all.
std::string failure_text(int rank, const std::optional<Error>& failure);
/// The error in a refusal; nullopt for other texts.
std::optional<Error> parse_refusal(const std::string& text);

/// For a rank that ends before the rendezvous; takes at most about ten seconds. Does nothing under our launcher and
/// torchrun, which end the other ranks themselves.
void publish_refusal(const RankEnvironment& environment, const Error& error) noexcept;

}  // namespace wmtp
