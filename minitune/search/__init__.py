"""Search algorithms: who decides which configurations are tried."""
