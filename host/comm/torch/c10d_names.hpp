// Names of c10d's classes, for headers that hold pointers to them. c10d's own headers take seconds to compile in every
// file that includes them, so only files that call a class include its header; classes that own such a pointer define
// their destructor there.
#pragma once

#include <c10/util/intrusive_ptr.h>

namespace c10d {
class Backend;
class Store;
class Work;
}  // namespace c10d
