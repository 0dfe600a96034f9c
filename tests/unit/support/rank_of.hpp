// A rank of a job of two on this host, for tests of the rendezvous.
#pragma once

#include "comm/rank_environment.hpp"

namespace wmtp::test {

inline RankEnvironment rank_of(int rank, int port) {
  RankEnvironment environment;
  environment.rank = rank;
  environment.world_size = 2;
  environment.master_port = port;
  environment.token = "token";
  return environment;
}

}  // namespace wmtp::test
