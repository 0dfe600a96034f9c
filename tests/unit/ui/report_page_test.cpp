#include "ui/report_page.hpp"

#include <gtest/gtest.h>

#include "base/embedded.hpp"
#include "support/log_fixture.hpp"

namespace wmtp {
namespace {

TEST(InsideScript, EscapesEverythingThatEndsTheScriptAndKeepsTheValue) {
  const OrderedJson value{{"text", "</script><!-- & \xe2\x80\xa8 \xe2\x80\xa9 \xe2\x80\xb0 \"quoted\" \\ \n"}};
  const std::string text = inside_script(value);
  for (const char* part : {"<", ">", "&", "\xe2\x80\xa8", "\xe2\x80\xa9"}) EXPECT_FALSE(holds(text, part)) << text;
  EXPECT_EQ(OrderedJson::parse(text), value);
}

TEST(PageFiles, ContainNothingThatEndsAScriptOrAStyle) {
  for (const auto& [name, text] : embedded_page()) {
    if (name == "page.html") continue;
    EXPECT_FALSE(holds(text, "</script")) << name;
    EXPECT_FALSE(holds(text, "</style")) << name;
    EXPECT_TRUE(holds(embedded_page().at("page.html"), "\"" + name + "\"")) << name << " is embedded and not used";
  }
}

TEST(PageFiles, AreAllEmbedded) {
  const std::string page = with_files_inside(embedded_page().at("page.html"));
  EXPECT_FALSE(holds(page, "<script src"));
  EXPECT_FALSE(holds(page, "rel=\"stylesheet\""));
  EXPECT_TRUE(holds(page, embedded_page().at("curves.js")));
  EXPECT_TRUE(holds(page, embedded_page().at("dygraph.min.js")));
}

class ReportPageTest : public LogTest {
 protected:
  static OrderedJson embedded(const std::string& page) {
    const std::string before = "<script type=\"application/json\" id=\"report\">";
    const size_t begin = page.find(before) + before.size();
    return OrderedJson::parse(page.substr(begin, page.find("</script>", begin) - begin));
  }
};

TEST_F(ReportPageTest, HasOnlyTheChosenRunsWithSmoothedCurves) {
  for (const char* name : {"one", "</script><script>alert(1)</script>", "other"}) {
    RunLog log(file_, start(name));
    for (int step = 1; step <= 50; ++step) log.metrics(step, {{"train/loss", 1.0 / step}});
    if (std::string(name) == "other") log.metrics(1, {{"only/other", 1}});
    log.end(ExitStatus::done);
  }
  PageData data(file_);
  const std::string page = report_page(data, {1, 2});
  EXPECT_FALSE(holds(page, "<script>alert(1)"));
  const OrderedJson report = embedded(page);
  ASSERT_EQ(report["runs"].size(), 2u);
  EXPECT_EQ(report["runs"][0]["name"], "</script><script>alert(1)</script>");
  EXPECT_EQ(report["names"], OrderedJson({"train/loss"}));
  ASSERT_EQ(report["curves"].size(), 2u);
  EXPECT_EQ(report["curves"][0]["smooth"]["0.9"]["step"].size(), 50u);
  EXPECT_EQ(report["params"].size(), 3u);
}

TEST_F(ReportPageTest, SelectsEvenlySpacedSamplesAndReportsTheirTotal) {
  RunLog log(file_, start());
  log.end(ExitStatus::done);
  for (int step = 1; step <= 100; ++step)
    execute("INSERT INTO samples VALUES (1, " + std::to_string(step) + ", 0, 0, 1, 65, 'A', 1, 2, NULL)");
  PageData data(file_);
  const OrderedJson samples = embedded(report_page(data, {1}))["samples"][0];
  EXPECT_EQ(samples["sampled"]["steps_in_log"], 100);
  EXPECT_EQ(samples["sampled"]["steps"].size(), 40u);
  EXPECT_EQ(samples["sampled"]["steps"].front(), 1);
  EXPECT_EQ(samples["sampled"]["steps"].back(), 100);
  EXPECT_EQ(samples["tokens"].size(), 40u);
}

}  // namespace
}  // namespace wmtp
