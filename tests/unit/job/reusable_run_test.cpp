#include "job/reusable_run.hpp"

#include "support/log_fixture.hpp"

namespace wmtp {
namespace {

using ReusableRun = LogTest;

TEST_F(ReusableRun, IsNotFoundInAnEmptyLog) { EXPECT_FALSE(reusable_run(std::string(64, '0'), file_)); }

}  // namespace
}  // namespace wmtp
