#include "memory/caught_error.hpp"

#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <new>

namespace wmtp {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr char of_cuda[] =
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB of which 1.20 GiB is "
    "free. "
    "Including non-PyTorch memory, this process has 77.90 GiB memory in use. Of the allocated memory 70.00 GiB is "
    "allocated by PyTorch, and 3.00 GiB is reserved by PyTorch but unallocated.";

template <class Function>
Error error_of(Function function) {
  try {
    function();
  } catch (...) {
    return caught_error();
  }
  return {ExitStatus::done, ""};
}

[[noreturn]] void run_out(const std::string& text) { throw c10::OutOfMemoryError(c10::SourceLocation{}, text); }

TEST(CaughtError, ALongMessageIsSearchedOnlyAtItsBeginning) {
  const Error error = error_of([] { run_out(of_cuda + std::string(1'000'000, '1')); });
  EXPECT_THAT(error.what(), HasSubstr("2.00 GiB requested"));
}

TEST(CaughtError, DeviceOutOfMemoryReportsAmountsAndRemedies) {
  const Error error = error_of([] { run_out(of_cuda); });
  EXPECT_EQ(error.status(), ExitStatus::device_memory);
  EXPECT_THAT(error.what(),
              AllOf(HasSubstr("2.00 GiB requested, 1.20 GiB of 79.11 GiB free, 70.00 GiB allocated, 3.00 GiB "
                              "reserved"),
                    HasSubstr("train.batch_size"), HasSubstr("train.sequence_length"),
                    HasSubstr("activation_checkpointing"), HasSubstr("cpu_offload"), HasSubstr("ranks")));
  EXPECT_THAT(error_of([] { run_out("no more\nframe #0"); }).what(),
              AllOf(HasSubstr("no more;"), Not(HasSubstr("#0"))));
}

struct RunsOut : torch::autograd::Function<RunsOut> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) { return x.clone(); }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*, torch::autograd::variable_list) {
    run_out(of_cuda);
  }
};

TEST(CaughtError, DeviceOutOfMemoryInBackwardIsReportedLikeInForward) {
  const at::Tensor x = at::ones({3}).requires_grad_(true);
  const Error error = error_of([&] { torch::autograd::grad({RunsOut::apply(x).sum()}, {x}); });
  EXPECT_EQ(error.status(), ExitStatus::device_memory);
  EXPECT_THAT(error.what(), HasSubstr("2.00 GiB requested"));
}

TEST(CaughtError, HostOutOfMemoryIsNotABug) {
  const Error error = error_of([] { throw std::bad_alloc(); });
  EXPECT_EQ(error.status(), ExitStatus::device_memory);
  EXPECT_THAT(error.what(), HasSubstr("on the CPU; lower train.batch_size"));
}

TEST(CaughtError, LackOfMemoryOutsideTrainingNamesTheWork) {
  const auto error_of_work = [](auto work) {
    return error_of([&] {
      try {
        work();
      } catch (...) {
        rethrow_from("while the data was prepared", "split long lines");
      }
    });
  };
  const auto too_large = [] { at::empty({int64_t{1} << 50}); };
  for (const Error& error : {error_of_work([] { throw std::bad_alloc(); }), error_of_work(too_large)}) {
    EXPECT_EQ(error.status(), ExitStatus::device_memory);
    EXPECT_STREQ(error.what(), "out of memory on the CPU while the data was prepared; split long lines");
  }
  EXPECT_EQ(error_of(too_large).status(), ExitStatus::device_memory);
  EXPECT_STREQ(error_of_work([] { throw Error(ExitStatus::data, "no file"); }).what(), "no file");
  EXPECT_THAT(error_of_work([] { run_out(of_cuda); }).what(), HasSubstr("2.00 GiB requested"));
}

TEST(CaughtError, AnErrorIsUnchangedAndAnythingElseIsABug) {
  const Error ours = error_of([] { throw Error(ExitStatus::peer, "rank 1 is gone"); });
  EXPECT_EQ(ours.status(), ExitStatus::peer);
  EXPECT_STREQ(ours.what(), "rank 1 is gone");
  const Error other = error_of([] { throw std::logic_error("two and two"); });
  EXPECT_EQ(other.status(), ExitStatus::bug);
  EXPECT_THAT(other.what(), HasSubstr("two and two"));
  EXPECT_EQ(error_of([] { throw 42; }).status(), ExitStatus::bug);
}

}  // namespace
}  // namespace wmtp
