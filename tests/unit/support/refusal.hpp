// What a call is refused with: the text of its Error, whose status is checked; a call that is not refused is a failure.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/error.hpp"

namespace wmtp::test {

/// The text of the wmtp::Error of that status that `call` throws; a test failure otherwise.
template <typename Call>
std::string refusal(ExitStatus status, Call call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(int(error.status()), int(status)) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return "";
}

inline testing::AssertionResult says(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "no \"" << part << "\" in\n" << text << "\n";
}

/// Evaluates its arguments once: what was refused is not tried again for the message.
#define EXPECT_SAYS(text, part) EXPECT_TRUE(::wmtp::test::says(text, part))

}  // namespace wmtp::test
