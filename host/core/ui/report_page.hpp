// `report`: the page and its data in one file, which opens without a server or network access.
//
// The data are the live page's answers, embedded in the file: curves with up to two points for each of 800 columns,
// smoothed over all their points with each of a few factors; samples of at most 40 steps.
#pragma once

#include <string>
#include <vector>

#include "core/ui/page_data.hpp"

namespace wmtp {

/// The file's content. `runs` must exist.
std::string report_page(PageData& data, const std::vector<int64_t>& runs);

/// JSON that is safe inside a <script> for any text in it: without '<', '>', '&' and the line terminators that only
/// JavaScript has (U+2028, U+2029).
std::string inside_script(const PageJson& value);

/// page.html with the contents of the files that it refers to: `<link rel="stylesheet" href="F">` and `<script
/// src="F"></script>`.
std::string with_files_inside(const std::string& page);

}  // namespace wmtp
