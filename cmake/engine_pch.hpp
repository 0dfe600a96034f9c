// Precompiled header of the engine: the LibTorch headers that most of its files include. The compiler instantiates a
// header's templates again in each file, so headers that few files need (autograd, c10d: 4 s a file) are not here.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>
