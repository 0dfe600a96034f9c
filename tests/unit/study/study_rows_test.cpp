#include "study/study_rows.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "support/log_fixture.hpp"

namespace wmtp {
namespace {

using StudyPlans = LogTest;

const Json first{{"seeds", {1, 2}}}, second{{"seeds", {1, 2, 3}}};

TEST_F(StudyPlans, CountFromTheFirstRunOn) {
  EXPECT_EQ(begun_at(file_, "trial", first), "") << "without a log";
  store_plan(file_, "trial", first, {{"hours", 1}});
  store_plan(file_, "trial", second, {{"hours", 2}});
  EXPECT_EQ(begun_at(file_, "trial", first), "") << "what is planned may still change";
  const Json begun = begin_study(file_, "trial", second);
  EXPECT_EQ(begun["estimate"]["hours"], 2);
  EXPECT_TRUE(begun["changes"].empty());
  EXPECT_EQ(begun_at(file_, "trial", first), begun["begun_at"]);

  const Json changed = begin_study(file_, "trial", first);
  EXPECT_EQ(changed["estimate"]["hours"], 2) << "the definition that was begun first counts";
  EXPECT_EQ(changed["changes"], Json({"seeds: [1,2,3] then, [1,2] now"}));
  EXPECT_TRUE(begin_study(file_, "trial", second)["changes"].empty());
}

TEST_F(StudyPlans, OfOtherStudiesDoNotCount) {
  begin_study(file_, "other", second);
  const Json begun = begin_study(file_, "trial", first);
  EXPECT_TRUE(begun["estimate"].empty()) << "begun without a plan";
  EXPECT_TRUE(begun["changes"].empty());
  EXPECT_EQ(integer("SELECT count(*) FROM study_plans"), 2);
}

TEST_F(StudyPlans, OfAnotherFileOfThatNameAreRefused) {
  const Json plain{{"members", {{"plain", 1}, {"good", 2}}}}, other{{"members", {{"small", 1}}}},
      renamed{{"members", {{"plain", 1}, {"better", 2}}}};
  begin_study(file_, "trial", plain);
  EXPECT_EQ(begin_study(file_, "trial", renamed)["changes"].size(), 2u);
  for (const auto& refused : {std::function<void()>([&] { begin_study(file_, "trial", other); }),
                              std::function<void()>([&] { begun_at(file_, "trial", other); })})
    try {
      refused();
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), ExitStatus::usage);
      EXPECT_THAT(error.what(),
                  testing::HasSubstr("begun with none of these members, but with \"good\" and \"plain\""));
    }
  EXPECT_EQ(integer("SELECT count(*) FROM study_plans"), 2) << "of the same file";
}

TEST_F(StudyPlans, AReportReplacesTheOneBefore) {
  const OrderedJson report{{"study", "trial"}, {"hash", "5e"}, {"results", {1, 2}}, {"analysis", {3}}};
  store_report(file_, report, "<svg>1</svg>", "<svg>2</svg>");
  EXPECT_EQ(integer("SELECT count(*) FROM study_reports WHERE json_extract(report, '$.results') IS NULL AND "
                    "json_extract(report, '$.analysis[0]') = 3 AND curves = '<svg>1</svg>' AND made_ns > 0"),
            1);
  store_report(file_, report, "<svg>3</svg>", "<svg>2</svg>");
  EXPECT_EQ(integer("SELECT count(*) FROM study_reports WHERE curves = '<svg>3</svg>'"), 1);
  EXPECT_EQ(integer("SELECT count(*) FROM study_reports"), 1);
}

}  // namespace
}  // namespace wmtp
