strata_test(forecast_test unit/engine/machine_probe_test.cpp unit/engine/step_forecast_test.cpp unit/engine/step_traffic_test.cpp)
