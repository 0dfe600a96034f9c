// SingleRank: the communicators of a process that works alone; nothing is sent.
#pragma once

#include "engine/comm/channels.hpp"

namespace wmtp {

struct SingleRank {
  Peers peers{RankEnvironment{}, std::chrono::seconds(1)};
  Channels channels{peers, nullptr, nullptr, std::chrono::seconds(1)};
};

}  // namespace wmtp
