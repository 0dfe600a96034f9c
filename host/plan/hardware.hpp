// What `plan` knows about hardware that may not be here: memory, measured rates of links, and the rate of products that
// a training reached.
#pragma once

#include <optional>
#include <string>

#include "experiment/experiment.hpp"
#include "plan/step_request.hpp"

namespace wmtp {

/// A card, with its links. Sources: hardware.cpp.
struct Hardware {
  const char* name;           ///< of `plan --on`
  const char* device;         ///< name in stated_peak (job/device_peak.hpp)
  double memory;              ///< bytes of a device
  double bus;                 ///< bytes per second that a device receives from the others of its host
  double network;             ///< bytes per second that a device receives from other hosts
  double products;            ///< operations of a training per second, as a share of the peak
  const char* calibrated_by;  ///< the card whose training gave `products`; "": none, they are assumed
};

/// "h100, a100-80gb and h200", as `plan --on` takes them.
std::string known_hardware();

/// Error(usage) for another name.
const Hardware& find_hardware(const std::string& name);

/// Rates of a device; nullopt in fp32, because all calibrations are in bf16.
std::optional<Rates> rates_on(const Hardware& hardware, Precision precision);

}  // namespace wmtp
