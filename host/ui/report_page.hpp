// `report`: the page and its data in one file, viewable without a server or network access.
//
// The data are the live page's answers, embedded in the file: curves with up to two points for each of 800 columns,
// smoothed at full resolution with each of a few factors; samples of at most 40 steps.
#pragma once

#include <string>
#include <vector>

#include "ui/page_data.hpp"

namespace wmtp {

/// The file's content. `runs` must exist.
std::string report_page(PageData& data, const std::vector<int64_t>& runs);

/// JSON that is safe inside a <script> whatever its texts: without '<', '>', '&' and the line terminators specific to
/// JavaScript (U+2028, U+2029).
std::string inside_script(const OrderedJson& value);

/// page.html with its files inlined: `<link rel="stylesheet" href="F">` and `<script src="F"></script>`.
std::string with_files_inside(const std::string& page);

}  // namespace wmtp
