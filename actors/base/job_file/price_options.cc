#include "actors/base/job_file/price_options.h"

#include <charconv>

namespace es::actors {
namespace {

constexpr double kPriceMax = 1e9;

Status add(const std::string& option, const std::string& text,
           std::map<DeviceType, double>& prices) {
  const std::size_t equals = text.find('=');
  const std::string type = text.substr(0, equals);
  double price = -1;
  if (equals != std::string::npos) {
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data() + equals + 1, end, price);
    if (error != std::errc() || rest != end) price = -1;
  }
  // parse_device_set knows which names a type may have.
  const bool is_type = parse_device_set(type + ":1").ok();
  if (!is_type || !(price >= 0 && price <= kPriceMax))
    return usage_error(option + " " + text +
                       ": allowed is TYPE=NUMBER, with a number from 0 to 1e9 for an hour");
  if (!prices.emplace(DeviceType{type}, price).second)
    return usage_error(option + " " + text + ": " + type +
                       " has a price already; allowed is one for each type");
  return {};
}

}  // namespace

Result<scheduler::Prices> parse_prices(const std::vector<std::string>& prices,
                                       const std::vector<std::string>& spot_prices) {
  scheduler::Prices parsed;
  for (const std::string& text : prices) ES_RETURN_IF_ERROR(add("--price", text, parsed.per_hour));
  for (const std::string& text : spot_prices)
    ES_RETURN_IF_ERROR(add("--spot-price", text, parsed.spot_per_hour));
  for (const auto& [type, price] : parsed.spot_per_hour)
    if (!parsed.per_hour.contains(type))
      return usage_error("--spot-price " + type.name + "=...: " + type.name +
                         " has no --price; allowed is a type that has one");
  return parsed;
}

}  // namespace es::actors
