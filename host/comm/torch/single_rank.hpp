// SingleRank: communicators for a single process; nothing is sent.
#pragma once

#include "comm/torch/channels.hpp"

namespace wmtp {

struct SingleRank {
  Peers peers{RankEnvironment{}, std::chrono::seconds(1)};
  Channels channels{peers, nullptr, nullptr, std::chrono::seconds(1)};
};

}  // namespace wmtp
