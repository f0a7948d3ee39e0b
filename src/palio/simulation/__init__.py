"""Networks of brokers in virtual time: every protocol of Palio, and users' own applications, without a network."""
