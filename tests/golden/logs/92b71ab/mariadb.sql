CREATE TABLE `toolledger_asked` (
  `projection` bigint(20) NOT NULL,
  `lane` int(11) NOT NULL,
  `conversation` bigint(20) NOT NULL,
  `page` int(11) NOT NULL,
  `marks` longblob NOT NULL,
  PRIMARY KEY (`projection`,`lane`,`conversation`,`page`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO toolledger_asked VALUES (1, 3, 1, 0, X'31eaf52155aecfa030d3d89d639562f9');

INSERT INTO toolledger_asked VALUES (1, 3, 2, 0, X'a7f8bd38fd6d8abd75fb016e7934e942');

INSERT INTO toolledger_asked VALUES (1, 3, 3, 0, X'a7f8bd38fd6d8abd75fb016e7934e942');

INSERT INTO toolledger_asked VALUES (1, 4, 1, 0, X'28d398749132dc0dc9e0f2f9b5968bccc8f5484a5d00298ccc685281af3af5ea255e3123ef625277e5df7019bfb890080d39c040303e03e4bca7fddb77deb396cead762695e7305b0bc5fe2d6b262f0b5c3208ab5ce9bb371bd4e0cb2f9a3973b725f05ee3790a3490541975263e14af94db7f3443800829e792faca36fd3be3eb9d77e92d8cf59d');

INSERT INTO toolledger_asked VALUES (1, 4, 2, 0, X'a7f8bd38fd6d8abd75fb016e7934e942');

INSERT INTO toolledger_asked VALUES (1, 5, 1, 0, X'a7f8bd38fd6d8abd75fb016e7934e942');

INSERT INTO toolledger_asked VALUES (1, 6, 1, 0, X'6112b7210272391c75fb016e7934e942');

INSERT INTO toolledger_asked VALUES (1, 7, 1, 0, X'a7f8bd38fd6d8abdc598a6deec9f876d');

INSERT INTO toolledger_asked VALUES (1, 12, 1, 0, X'a7f8bd38fd6d8abd75fb016e7934e942');

INSERT INTO toolledger_asked VALUES (2, 2, 1, 0, X'28d398749132dc0dc9e0f2f9b5968bcc');

CREATE TABLE `toolledger_call_statistics` (
  `projection` bigint(20) NOT NULL,
  `lane` int(11) NOT NULL,
  `page` bigint(20) NOT NULL,
  `body` longtext NOT NULL,
  PRIMARY KEY (`projection`,`lane`,`page`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO toolledger_call_statistics VALUES (1, 3, 0, '[{\"calls\":1,\"tool\":\"search\",\"number\":1,\"fingerprint\":\"x1:31eaf52155aecfa0acb45e21dbdbed83\"},{\"attempts\":2,\"retries\":1,\"completions\":1,\"synthetic\":1,\"lossy\":1,\"recovered\":1,\"mishaps\":1,\"not_at_once\":1,\"failures\":{\"rate_limit\":1},\"tool\":\"search\",\"number\":2,\"arguments\":\"{\\\"q\\\":\\\"rig\\\",\\\"deep\\\":{\\\"n\\\":1,\\\"x\\\":1.0}}\",\"fingerprint\":\"x1:14d8414959de21ac74f20d38f10fd2ae\"},{\"calls\":1,\"rejections\":{\"gate\":1},\"tool\":\"drop_table\",\"number\":3,\"arguments\":\"{\\\"name\\\":\\\"orders\\\"}\",\"fingerprint\":\"x1:30d3d89d639562f921fc63df4c90f4d3\"},{\"calls\":2,\"mishaps\":2,\"terminal\":2,\"failures\":{\"internal\":2},\"tool\":\"get_weather\",\"number\":4,\"arguments\":\"{\\\"city\\\":\\\"Oslo\\\"}\",\"fingerprint\":\"x1:a7f8bd38fd6d8abd03d17cf6a8688b53\"},{\"calls\":2,\"completions\":2,\"tool\":\"get_weather\",\"number\":5,\"arguments\":\"{\\\"city\\\":\\\"Rome\\\"}\",\"fingerprint\":\"x1:75fb016e7934e94284e42e78648a1a38\"}]');

INSERT INTO toolledger_call_statistics VALUES (1, 4, 0, '[{\"calls\":1,\"attempts\":3,\"retries\":2,\"lost\":1,\"completions\":1,\"recovered\":1,\"mishaps\":1,\"not_at_once\":1,\"failures\":{\"rate_limit\":1,\"transient\":1},\"tool\":\"find_order\",\"number\":1,\"arguments\":\"{\\\"number\\\":7}\",\"fingerprint\":\"x1:28d398749132dc0d81de9de538e00000\"},{\"calls\":1,\"mishaps\":1,\"terminal\":1,\"failures\":{\"validation\":1},\"tool\":\"find_order\",\"number\":2,\"arguments\":\"{\\\"number\\\": 7\",\"fingerprint\":\"x1:c9e0f2f9b5968bcc3474086feaade600\"},{\"calls\":1,\"rejections\":{\"human\":1},\"tool\":\"drop\",\"number\":3,\"arguments\":\"{\\\"order\\\":0}\",\"fingerprint\":\"x1:c8f5484a5d00298c10b39023c8a632eb\"},{\"calls\":1,\"rejections\":{\"gate\":1},\"tool\":\"drop\",\"number\":4,\"arguments\":\"{\\\"order\\\":1}\",\"fingerprint\":\"x1:cc685281af3af5eadec269b6c655486d\"},{\"calls\":1,\"rejections\":{\"hook\":1},\"tool\":\"drop\",\"number\":5,\"arguments\":\"{\\\"order\\\":2}\",\"fingerprint\":\"x1:255e3123ef625277105ff7c3d6c2bdd1\"},{\"calls\":1,\"rejections\":{\"rule\":1},\"tool\":\"drop\",\"number\":6,\"arguments\":\"{\\\"order\\\":3}\",\"fingerprint\":\"x1:e5df7019bfb890082ecc464defd2c3f5\"},{\"calls\":1,\"rejections\":{\"limit\":1},\"tool\":\"drop\",\"number\":7,\"arguments\":\"{\\\"order\\\":4}\",\"fingerprint\":\"x1:0d39c040303e03e4d92cf36812e47fba\"},{\"calls\":1,\"rejections\":{\"sibling\":1},\"tool\":\"drop\",\"number\":8,\"arguments\":\"{\\\"order\\\":5}\",\"fingerprint\":\"x1:bca7fddb77deb3962e09a87792d2350f\"},{\"calls\":1,\"tool\":\"refund\",\"number\":9,\"fingerprint\":\"x1:cead762695e7305bebbd55ad91c0e112\"},{\"attempts\":1,\"completions\":1,\"tool\":\"refund\",\"number\":10,\"fingerprint\":\"x1:f6add1edc7c6034df0e882bda5ff2ed4\"},{\"calls\":1,\"completions\":1,\"synthetic\":1,\"not_at_once\":1,\"tool\":\"refund\",\"number\":11,\"fingerprint\":\"x1:0bc5fe2d6b262f0b3295c736c942020a\"},{\"calls\":1,\"open\":1,\"tool\":\"refund\",\"number\":12,\"fingerprint\":\"x1:5c3208ab5ce9bb37081139769c5b149e\"},{\"calls\":1,\"attempts\":1,\"completions\":1,\"lossy\":1,\"tool\":\"refund\",\"number\":13,\"fingerprint\":\"x1:1bd4e0cb2f9a397314535b58c67a90de\"},{\"calls\":1,\"attempts\":1,\"completions\":1,\"tool\":\"chart\",\"number\":14,\"fingerprint\":\"x1:b725f05ee3790a34a35ab3fcfe278e5d\"},{\"calls\":3,\"attempts\":3,\"completions\":1,\"repeated\":2,\"mishaps\":2,\"terminal\":2,\"failures\":{\"transient\":2},\"tool\":\"find_order\",\"number\":15,\"arguments\":\"{\\\"number\\\":8}\",\"fingerprint\":\"x1:90541975263e14af82fd7c153ea2e1a0\"},{\"calls\":1,\"open\":1,\"tool\":\"find_order\",\"number\":16,\"fingerprint\":\"x1:94db7f3443800829ec5c00fdd589e6a4\"},{\"calls\":1,\"open\":1,\"tool\":\"find_order\",\"number\":17,\"fingerprint\":\"x1:e792faca36fd3be396cef2d3220314e0\"},{\"calls\":1,\"attempts\":1,\"open\":1,\"running\":1,\"tool\":\"find_order\",\"number\":18,\"fingerprint\":\"x1:eb9d77e92d8cf59da6fcdd916c8601be\"},{\"calls\":1,\"completions\":1,\"tool\":\"get_weather\",\"number\":19,\"fingerprint\":\"x1:a7f8bd38fd6d8abd03d17cf6a8688b53\"},{\"calls\":1,\"completions\":1,\"tool\":\"get_weather\",\"number\":20,\"fingerprint\":\"x1:75fb016e7934e94284e42e78648a1a38\"}]');

INSERT INTO toolledger_call_statistics VALUES (1, 5, 0, '[{\"calls\":1,\"completions\":1,\"tool\":\"get_weather\",\"number\":1,\"fingerprint\":\"x1:a7f8bd38fd6d8abd03d17cf6a8688b53\"},{\"calls\":1,\"completions\":1,\"tool\":\"get_weather\",\"number\":2,\"fingerprint\":\"x1:75fb016e7934e94284e42e78648a1a38\"}]');

INSERT INTO toolledger_call_statistics VALUES (1, 6, 0, '[{\"calls\":1,\"mishaps\":1,\"terminal\":1,\"failures\":{\"internal\":1},\"tool\":\"get_weather\",\"number\":1,\"arguments\":\"{\\\"city\\\":\\\"Oslo\\\",\\\"days\\\":1}\",\"fingerprint\":\"x1:6112b7210272391c2622ac6e22c0bd7b\"},{\"calls\":1,\"completions\":1,\"tool\":\"get_weather\",\"number\":2,\"fingerprint\":\"x1:75fb016e7934e94284e42e78648a1a38\"}]');

INSERT INTO toolledger_call_statistics VALUES (1, 7, 0, '[{\"calls\":1,\"completions\":1,\"tool\":\"get_weather\",\"number\":1,\"fingerprint\":\"x1:a7f8bd38fd6d8abd03d17cf6a8688b53\"},{\"calls\":1,\"completions\":1,\"tool\":\"get_weather\",\"number\":2,\"fingerprint\":\"x1:c598a6deec9f876d9e71c5bc2d5d5b45\"}]');

INSERT INTO toolledger_call_statistics VALUES (1, 12, 0, '[{\"calls\":1,\"completions\":1,\"tool\":\"get_weather\",\"number\":1,\"fingerprint\":\"x1:a7f8bd38fd6d8abd03d17cf6a8688b53\"},{\"calls\":1,\"completions\":1,\"tool\":\"get_weather\",\"number\":2,\"fingerprint\":\"x1:75fb016e7934e94284e42e78648a1a38\"}]');

INSERT INTO toolledger_call_statistics VALUES (2, 2, 0, '[{\"calls\":1,\"attempts\":1,\"open\":1,\"running\":1,\"tool\":\"find_order\",\"number\":1,\"fingerprint\":\"x1:28d398749132dc0d81de9de538e00000\"},{\"calls\":1,\"open\":1,\"tool\":\"find_order\",\"number\":2,\"fingerprint\":\"x1:c9e0f2f9b5968bcc3474086feaade600\"}]');

CREATE TABLE `toolledger_calls` (
  `projection` bigint(20) NOT NULL,
  `lane` int(11) NOT NULL,
  `position` bigint(20) NOT NULL,
  `key` binary(16) NOT NULL,
  `conversation` bigint(20) NOT NULL,
  `conversation_id` longtext NOT NULL,
  `call_id` longtext NOT NULL,
  `tool` longtext NOT NULL,
  `status` varchar(16) NOT NULL,
  `attempts` bigint(20) NOT NULL,
  `fingerprint` varchar(64) DEFAULT NULL,
  `imported` int(11) NOT NULL,
  `requested_at` bigint(20) DEFAULT NULL,
  `changed_at` bigint(20) NOT NULL,
  `body` longtext NOT NULL,
  PRIMARY KEY (`projection`,`lane`,`position`),
  UNIQUE KEY `toolledger_calls_key` (`projection`,`lane`,`key`),
  KEY `toolledger_calls_status` (`projection`,`status`,`lane`,`position`),
  KEY `toolledger_calls_of` (`projection`,`lane`,`conversation`,`position`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO toolledger_calls VALUES (1, 3, 4, X'9f6c250ad3446b100891c2bbc82095b1', 1, 'every-member', 'call_every', 'search', 'Completed', 2, 'x1:14d8414959de21ac74f20d38f10fd2ae', 1, 1767268801000000, 1767268802250000, '{\"id\":\"call_every\",\"call\":{\"name\":\"search\",\"arguments\":[\"no\",\"object\"],\"id\":\"call_every\",\"raw\":\"[\\\"no\\\",\\\"object\\\"]\"},\"status\":{\"state\":\"Completed\",\"response\":{\"name\":\"search\",\"result\":[\"a chart\",{\"type\":\"image\",\"data\":\"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==\"}],\"id\":\"call_every\"},\"synthetic\":true},\"attempts\":2,\"edit\":{\"name\":\"search\",\"arguments\":{\"q\":\"rig\",\"deep\":{\"n\":1,\"x\":1.0}},\"id\":\"call_every\"},\"provider_call_id\":\"toolu_1\",\"turn\":2,\"index\":1,\"fingerprint\":\"x1:14d8414959de21ac74f20d38f10fd2ae\",\"requested_at\":1767268801000000,\"decided_at\":1767268801250000,\"started_at\":1767268802000000,\"ended_at\":1767268802250000}');

INSERT INTO toolledger_calls VALUES (1, 3, 10, X'11a5258e6916d85808d9512b5d064872', 1, 'every-member', 'call_refused', 'drop_table', 'Rejected', 0, 'x1:30d3d89d639562f921fc63df4c90f4d3', 1, 1767268802500000, 1767268802750000, '{\"id\":\"call_refused\",\"call\":{\"name\":\"drop_table\",\"arguments\":{\"name\":\"orders\"},\"id\":\"call_refused\"},\"status\":{\"state\":\"Rejected\",\"reason\":\"not in production\",\"source\":\"gate\",\"by\":\"grace\"},\"provider_call_id\":\"toolu_2\",\"turn\":2,\"index\":2,\"fingerprint\":\"x1:30d3d89d639562f921fc63df4c90f4d3\",\"requested_at\":1767268802500000,\"decided_at\":1767268802750000,\"ended_at\":1767268802750000}');

INSERT INTO toolledger_calls VALUES (1, 3, 16, X'2377c813ce8058765cbc9db8791e13df', 2, 'from-bedrock', 'tooluse_1', 'get_weather', 'Failed', 0, 'x1:a7f8bd38fd6d8abd03d17cf6a8688b53', 1, 1767276018500000, 1767276018500000, '{\"id\":\"tooluse_1\",\"call\":{\"name\":\"get_weather\",\"arguments\":{\"city\":\"Oslo\"},\"id\":\"tooluse_1\"},\"status\":{\"state\":\"Failed\",\"failure\":{\"kind\":\"internal\",\"message\":\"no such station\"}},\"provider_call_id\":\"tooluse_1\",\"turn\":1,\"fingerprint\":\"x1:a7f8bd38fd6d8abd03d17cf6a8688b53\",\"requested_at\":1767276018500000,\"ended_at\":1767276018500000}');

INSERT INTO toolledger_calls VALUES (1, 3, 17, X'36c29bca7966617d7d33e8a1a648038f', 2, 'from-bedrock', 'tooluse_2', 'get_weather', 'Completed', 0, 'x1:75fb016e7934e94284e42e78648a1a38', 1, 1767276018500000, 1767276018500000, '{\"id\":\"tooluse_2\",\"call\":{\"name\":\"get_weather\",\"arguments\":{\"city\":\"Rome\"},\"id\":\"tooluse_2\"},\"status\":{\"state\":\"Completed\",\"response\":{\"name\":\"get_weather\",\"result\":\"{\\\"celsius\\\":31}\",\"id\":\"tooluse_2\"}},\"provider_call_id\":\"tooluse_2\",\"turn\":1,\"index\":1,\"fingerprint\":\"x1:75fb016e7934e94284e42e78648a1a38\",\"requested_at\":1767276018500000,\"ended_at\":1767276018500000}');

INSERT INTO toolledger_calls VALUES (1, 3, 23, X'59ded340e2760797268ef0239a883547', 3, 'from-gemini', 'call_cb740bf6b94bda4700010000', 'get_weather', 'Failed', 0, 'x1:a7f8bd38fd6d8abd03d17cf6a8688b53', 1, 1767279618500000, 1767279618500000, '{\"id\":\"call_cb740bf6b94bda4700010000\",\"call\":{\"name\":\"get_weather\",\"arguments\":{\"city\":\"Oslo\"},\"id\":\"call_cb740bf6b94bda4700010000\"},\"status\":{\"state\":\"Failed\",\"failure\":{\"kind\":\"internal\",\"message\":\"no such station\"}},\"turn\":1,\"fingerprint\":\"x1:a7f8bd38fd6d8abd03d17cf6a8688b53\",\"requested_at\":1767279618500000,\"ended_at\":1767279618500000}');

INSERT INTO toolledger_calls VALUES (1, 3, 24, X'97ba8c7b1448bce752a8bcab7f3d47d3', 3, 'from-gemini', 'call_cb740bf6b94bda4700010001', 'get_weather', 'Completed', 0, 'x1:75fb016e7934e94284e42e78648a1a38', 1, 1767279618500000, 1767279618500000, '{\"id\":\"call_cb740bf6b94bda4700010001\",\"call\":{\"name\":\"get_weather\",\"arguments\":{\"city\":\"Rome\"},\"id\":\"call_cb740bf6b94bda4700010001\"},\"status\":{\"state\":\"Completed\",\"response\":{\"name\":\"get_weather\",\"result\":\"31 °C\",\"id\":\"call_cb740bf6b94bda4700010001\"}},\"turn\":1,\"index\":1,\"fingerprint\":\"x1:75fb016e7934e94284e42e78648a1a38\",\"requested_at\":1767279618500000,\"ended_at\":1767279618500000}');

INSERT INTO toolledger_calls VALUES (1, 4, 6, X'16fb9362e0ae4c7c8373788c29a5f58e', 1, 'support', 'call_find', 'find_order', 'Completed', 3, 'x1:28d398749132dc0d81de9de538e00000', 0, 1767268804750000, 1767268806500000, '{\"id\":\"call_find\",\"call\":{\"name\":\"find_order\",\"arguments\":{\"number\":7},\"id\":\"call_find\"},\"status\":{\"state\":\"Completed\",\"response\":{\"name\":\"find_order\",\"result\":{\"order\":7,\"status\":\"shipped\",\"ratio\":0.1,\"who\":\"Zoë\"},\"id\":\"call_find\"}},\"attempts\":3,\"provider_call_id\":\"call_find\",\"turn\":1,\"fingerprint\":\"x1:28d398749132dc0d81de9de538e00000\",\"requested_at\":1767268804750000,\"started_at\":1767268806250000,\"ended_at\":1767268806500000}');

INSERT INTO toolledger_calls VALUES (1, 4, 7, X'7cd4cd4937b100c684f33549937d7fd2', 1, 'support', 'call_cut', 'find_order', 'Failed', 0, 'x1:c9e0f2f9b5968bcc3474086feaade600', 0, 1767268805000000, 1767268806750000, '{\"id\":\"call_cut\",\"call\":{\"name\":\"find_order\",\"arguments\":null,\"id\":\"call_cut\",\"raw\":\"{\\\"number\\\": 7\"},\"status\":{\"state\":\"Failed\",\"failure\":{\"kind\":\"validation\",\"message\":\"the arguments are not JSON\"}},\"provider_call_id\":\"call_cut\",\"turn\":1,\"index\":1,\"fingerprint\":\"x1:c9e0f2f9b5968bcc3474086feaade600\",\"requested_at\":1767268805000000,\"ended_at\":1767268806750000}');

INSERT INTO toolledger_calls VALUES (1, 4, 16, X'ed32ab5d57aff97ff959335d81a43023', 1, 'support', 'call_human', 'drop', 'Rejected', 0, 'x1:c8f5484a5d00298c10b39023c8a632eb', 0, 1767268807250000, 1767268807500000, '{\"id\":\"call_human\",\"call\":{\"name\":\"drop\",\"arguments\":{\"order\":0},\"id\":\"call_human\"},\"status\":{\"state\":\"Rejected\",\"reason\":\"refused by human\",\"by\":\"grace\"},\"provider_call_id\":\"call_human\",\"turn\":2,\"fingerprint\":\"x1:c8f5484a5d00298c10b39023c8a632eb\",\"requested_at\":1767268807250000,\"decided_at\":1767268807500000,\"ended_at\":1767268807500000}');

INSERT INTO toolledger_calls VALUES (1, 4, 18, X'05100ec7ac58b409f85915e06a664232', 1, 'support', 'call_gate', 'drop', 'Rejected', 0, 'x1:cc685281af3af5eadec269b6c655486d', 0, 1767268807750000, 1767268808000000, '{\"id\":\"call_gate\",\"call\":{\"name\":\"drop\",\"arguments\":{\"order\":1},\"id\":\"call_gate\"},\"status\":{\"state\":\"Rejected\",\"reason\":\"refused by gate\",\"source\":\"gate\",\"by\":\"grace\"},\"provider_call_id\":\"call_gate\",\"turn\":3,\"fingerprint\":\"x1:cc685281af3af5eadec269b6c655486d\",\"requested_at\":1767268807750000,\"decided_at\":1767268808000000,\"ended_at\":1767268808000000}');

INSERT INTO toolledger_calls VALUES (1, 4, 20, X'535aa7ce32daff5226aceabb928cb21c', 1, 'support', 'call_hook', 'drop', 'Rejected', 0, 'x1:255e3123ef625277105ff7c3d6c2bdd1', 0, 1767268808250000, 1767268808500000, '{\"id\":\"call_hook\",\"call\":{\"name\":\"drop\",\"arguments\":{\"order\":2},\"id\":\"call_hook\"},\"status\":{\"state\":\"Rejected\",\"reason\":\"refused by hook\",\"source\":\"hook\",\"by\":\"grace\"},\"provider_call_id\":\"call_hook\",\"turn\":4,\"fingerprint\":\"x1:255e3123ef625277105ff7c3d6c2bdd1\",\"requested_at\":1767268808250000,\"decided_at\":1767268808500000,\"ended_at\":1767268808500000}');

INSERT INTO toolledger_calls VALUES (1, 4, 22, X'84a7d1238f7b7e6652d6bac0e1a59990', 1, 'support', 'call_rule', 'drop', 'Rejected', 0, 'x1:e5df7019bfb890082ecc464defd2c3f5', 0, 1767268808750000, 1767268809000000, '{\"id\":\"call_rule\",\"call\":{\"name\":\"drop\",\"arguments\":{\"order\":3},\"id\":\"call_rule\"},\"status\":{\"state\":\"Rejected\",\"reason\":\"refused by rule\",\"source\":\"rule\",\"by\":\"grace\"},\"provider_call_id\":\"call_rule\",\"turn\":5,\"fingerprint\":\"x1:e5df7019bfb890082ecc464defd2c3f5\",\"requested_at\":1767268808750000,\"decided_at\":1767268809000000,\"ended_at\":1767268809000000}');

INSERT INTO toolledger_calls VALUES (1, 4, 24, X'55509d9e980236c624695a74eb11b8f0', 1, 'support', 'call_limit', 'drop', 'Rejected', 0, 'x1:0d39c040303e03e4d92cf36812e47fba', 0, 1767268809250000, 1767268809500000, '{\"id\":\"call_limit\",\"call\":{\"name\":\"drop\",\"arguments\":{\"order\":4},\"id\":\"call_limit\"},\"status\":{\"state\":\"Rejected\",\"reason\":\"refused by limit\",\"source\":\"limit\",\"by\":\"grace\"},\"provider_call_id\":\"call_limit\",\"turn\":6,\"fingerprint\":\"x1:0d39c040303e03e4d92cf36812e47fba\",\"requested_at\":1767268809250000,\"decided_at\":1767268809500000,\"ended_at\":1767268809500000}');

INSERT INTO toolledger_calls VALUES (1, 4, 26, X'5df374a45a2cca32e1e6cfa8e4aa2eaa', 1, 'support', 'call_sibling', 'drop', 'Rejected', 0, 'x1:bca7fddb77deb3962e09a87792d2350f', 0, 1767268809750000, 1767268810000000, '{\"id\":\"call_sibling\",\"call\":{\"name\":\"drop\",\"arguments\":{\"order\":5},\"id\":\"call_sibling\"},\"status\":{\"state\":\"Rejected\",\"reason\":\"refused by sibling\",\"source\":\"sibling\",\"by\":\"grace\"},\"provider_call_id\":\"call_sibling\",\"turn\":7,\"fingerprint\":\"x1:bca7fddb77deb3962e09a87792d2350f\",\"requested_at\":1767268809750000,\"decided_at\":1767268810000000,\"ended_at\":1767268810000000}');

INSERT INTO toolledger_calls VALUES (1, 4, 28, X'3f0832366acaf00134b3baddd36b5eae', 1, 'support', 'call_refund', 'refund', 'Completed', 1, 'x1:f6add1edc7c6034df0e882bda5ff2ed4', 0, 1767268810250000, 1767268811000000, '{\"id\":\"call_refund\",\"call\":{\"name\":\"refund\",\"arguments\":{\"order\":7,\"amount\":9.5},\"id\":\"call_refund\"},\"status\":{\"state\":\"Completed\",\"response\":{\"name\":\"refund\",\"result\":\"refunded\",\"id\":\"call_refund\"}},\"attempts\":1,\"edit\":{\"name\":\"refund\",\"arguments\":{\"order\":7,\"amount\":9.0},\"id\":\"call_refund\"},\"provider_call_id\":\"call_refund\",\"turn\":8,\"fingerprint\":\"x1:f6add1edc7c6034df0e882bda5ff2ed4\",\"requested_at\":1767268810250000,\"decided_at\":1767268810500000,\"started_at\":1767268810750000,\"ended_at\":1767268811000000}');

INSERT INTO toolledger_calls VALUES (1, 4, 32, X'aa5441fd3288ae8090d2057aa6151e7f', 1, 'support', 'call_skipped', 'refund', 'Completed', 0, 'x1:0bc5fe2d6b262f0b3295c736c942020a', 0, 1767268811250000, 1767268811500000, '{\"id\":\"call_skipped\",\"call\":{\"name\":\"refund\",\"arguments\":{\"order\":7,\"amount\":1},\"id\":\"call_skipped\"},\"status\":{\"state\":\"Completed\",\"response\":{\"name\":\"refund\",\"result\":\"was done already\",\"id\":\"call_skipped\"},\"synthetic\":true},\"provider_call_id\":\"call_skipped\",\"turn\":9,\"fingerprint\":\"x1:0bc5fe2d6b262f0b3295c736c942020a\",\"requested_at\":1767268811250000,\"ended_at\":1767268811500000}');

INSERT INTO toolledger_calls VALUES (1, 4, 34, X'd2a46febf95c2ed14982a5b8c9ddbfa7', 1, 'support', 'call_list', 'refund', 'Pending', 0, 'x1:5c3208ab5ce9bb37081139769c5b149e', 0, 1767268811750000, 1767268811750000, '{\"id\":\"call_list\",\"call\":{\"name\":\"refund\",\"arguments\":[1,2],\"id\":\"call_list\",\"raw\":\"[1,2]\"},\"provider_call_id\":\"call_list\",\"turn\":10,\"fingerprint\":\"x1:5c3208ab5ce9bb37081139769c5b149e\",\"requested_at\":1767268811750000}');

INSERT INTO toolledger_calls VALUES (1, 4, 35, X'cabb9803ff3e8fddafa3fc07cd9f8eee', 1, 'support', 'call_bytes', 'refund', 'Completed', 1, 'x1:1bd4e0cb2f9a397314535b58c67a90de', 0, 1767268812000000, 1767268812500000, '{\"id\":\"call_bytes\",\"call\":{\"name\":\"refund\",\"arguments\":{\"order\":7,\"amount\":2},\"id\":\"call_bytes\"},\"status\":{\"state\":\"Completed\",\"response\":{\"name\":\"refund\",\"result\":{\"receipt\":\"00ff\",\"of\":[2]},\"id\":\"call_bytes\"}},\"attempts\":1,\"provider_call_id\":\"call_bytes\",\"turn\":10,\"index\":1,\"fingerprint\":\"x1:1bd4e0cb2f9a397314535b58c67a90de\",\"requested_at\":1767268812000000,\"started_at\":1767268812250000,\"ended_at\":1767268812500000}');

INSERT INTO toolledger_calls VALUES (1, 4, 40, X'4a0bfadadf23011363bdefb377488a13', 1, 'support', 'call_chart', 'chart', 'Completed', 1, 'x1:b725f05ee3790a34a35ab3fcfe278e5d', 0, 1767268813250000, 1767268813750000, '{\"id\":\"call_chart\",\"call\":{\"name\":\"chart\",\"arguments\":{\"order\":7},\"id\":\"call_chart\"},\"status\":{\"state\":\"Completed\",\"response\":{\"name\":\"chart\",\"result\":[{\"type\":\"text\",\"text\":\"the chart\"},{\"type\":\"image\",\"data\":\"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==\",\"media_type\":\"image/png\"},{\"type\":\"document\",\"data\":\"JVBERi0xLjQKJSVFT0YK\"}],\"id\":\"call_chart\"}},\"attempts\":1,\"provider_call_id\":\"call_chart\",\"turn\":12,\"fingerprint\":\"x1:b725f05ee3790a34a35ab3fcfe278e5d\",\"requested_at\":1767268813250000,\"started_at\":1767268813500000,\"ended_at\":1767268813750000}');

INSERT INTO toolledger_calls VALUES (1, 4, 44, X'e75ed1ec41dded4a57ce4f3ac989f5d0', 1, 'support', 'call_again_0', 'find_order', 'Failed', 1, 'x1:90541975263e14af82fd7c153ea2e1a0', 0, 1767268814250000, 1767268814750000, '{\"id\":\"call_again_0\",\"call\":{\"name\":\"find_order\",\"arguments\":{\"number\":8},\"id\":\"call_again_0\"},\"status\":{\"state\":\"Failed\",\"failure\":{\"kind\":\"transient\",\"message\":\"no answer\"}},\"attempts\":1,\"provider_call_id\":\"call_again_0\",\"turn\":13,\"fingerprint\":\"x1:90541975263e14af82fd7c153ea2e1a0\",\"requested_at\":1767268814250000,\"started_at\":1767268814500000,\"ended_at\":1767268814750000}');

INSERT INTO toolledger_calls VALUES (1, 4, 48, X'0ac898043e85b516b104bf1d996f4cba', 1, 'support', 'call_again_1', 'find_order', 'Failed', 1, 'x1:90541975263e14af82fd7c153ea2e1a0', 0, 1767268815250000, 1767268815750000, '{\"id\":\"call_again_1\",\"call\":{\"name\":\"find_order\",\"arguments\":{\"number\":8},\"id\":\"call_again_1\"},\"status\":{\"state\":\"Failed\",\"failure\":{\"kind\":\"transient\",\"message\":\"no answer\"}},\"attempts\":1,\"provider_call_id\":\"call_again_1\",\"turn\":14,\"fingerprint\":\"x1:90541975263e14af82fd7c153ea2e1a0\",\"requested_at\":1767268815250000,\"started_at\":1767268815500000,\"ended_at\":1767268815750000}');

INSERT INTO toolledger_calls VALUES (1, 4, 52, X'78ea9fd6d6ae2c5ad7734f445a5b2839', 1, 'support', 'call_again_2', 'find_order', 'Completed', 1, 'x1:90541975263e14af82fd7c153ea2e1a0', 0, 1767268816250000, 1767268816750000, '{\"id\":\"call_again_2\",\"call\":{\"name\":\"find_order\",\"arguments\":{\"number\":8},\"id\":\"call_again_2\"},\"status\":{\"state\":\"Completed\",\"response\":{\"name\":\"find_order\",\"result\":null,\"id\":\"call_again_2\"}},\"attempts\":1,\"provider_call_id\":\"call_again_2\",\"turn\":15,\"fingerprint\":\"x1:90541975263e14af82fd7c153ea2e1a0\",\"requested_at\":1767268816250000,\"started_at\":1767268816500000,\"ended_at\":1767268816750000}');

INSERT INTO toolledger_calls VALUES (1, 4, 56, X'532c7e12df718b49eb99e013c13c3c10', 1, 'support', 'call_pending', 'find_order', 'Pending', 0, 'x1:94db7f3443800829ec5c00fdd589e6a4', 0, 1767268817250000, 1767268817250000, '{\"id\":\"call_pending\",\"call\":{\"name\":\"find_order\",\"arguments\":{\"number\":9},\"id\":\"call_pending\"},\"provider_call_id\":\"call_pending\",\"turn\":16,\"fingerprint\":\"x1:94db7f3443800829ec5c00fdd589e6a4\",\"requested_at\":1767268817250000}');

INSERT INTO toolledger_calls VALUES (1, 4, 57, X'aa5ce2b8d208e1095d46eeb37f3a20ec', 1, 'support', 'call_approved', 'find_order', 'Approved', 0, 'x1:e792faca36fd3be396cef2d3220314e0', 0, 1767268817500000, 1767268817750000, '{\"id\":\"call_approved\",\"call\":{\"name\":\"find_order\",\"arguments\":{\"number\":10},\"id\":\"call_approved\"},\"status\":{\"state\":\"Approved\"},\"provider_call_id\":\"call_approved\",\"turn\":16,\"index\":1,\"fingerprint\":\"x1:e792faca36fd3be396cef2d3220314e0\",\"requested_at\":1767268817500000,\"decided_at\":1767268817750000}');

INSERT INTO toolledger_calls VALUES (1, 4, 59, X'1a87160f1bf6689d0af8d46e54c0f9fe', 1, 'support', 'call_running', 'find_order', 'Running', 1, 'x1:eb9d77e92d8cf59da6fcdd916c8601be', 0, 1767268818000000, 1767268818250000, '{\"id\":\"call_running\",\"call\":{\"name\":\"find_order\",\"arguments\":{\"number\":11},\"id\":\"call_running\"},\"status\":{\"state\":\"Running\",\"attempt\":1,\"arguments\":{\"number\":11}},\"attempts\":1,\"provider_call_id\":\"call_running\",\"turn\":17,\"fingerprint\":\"x1:eb9d77e92d8cf59da6fcdd916c8601be\",\"requested_at\":1767268818000000,\"started_at\":1767268818250000}');

INSERT INTO toolledger_calls VALUES (1, 4, 67, X'10ce2631bf80f229df186c71992401bb', 2, 'from-openai-responses', 'call_1', 'get_weather', 'Completed', 0, 'x1:a7f8bd38fd6d8abd03d17cf6a8688b53', 1, 1767294018500000, 1767294018500000, '{\"id\":\"call_1\",\"call\":{\"name\":\"get_weather\",\"arguments\":{\"city\":\"Oslo\"},\"id\":\"call_1\"},\"status\":{\"state\":\"Completed\",\"response\":{\"name\":\"get_weather\",\"result\":\"{\\\"error\\\": \\\"no such station\\\"}\",\"id\":\"call_1\"}},\"provider_call_id\":\"call_1\",\"turn\":1,\"fingerprint\":\"x1:a7f8bd38fd6d8abd03d17cf6a8688b53\",\"requested_at\":1767294018500000,\"ended_at\":1767294018500000}');

INSERT INTO toolledger_calls VALUES (1, 4, 69, X'ac3df1c9fb7310f082ad05e92c7076f1', 2, 'from-openai-responses', 'call_2', 'get_weather', 'Completed', 0, 'x1:75fb016e7934e94284e42e78648a1a38', 1, 1767294018500000, 1767294018500000, '{\"id\":\"call_2\",\"call\":{\"name\":\"get_weather\",\"arguments\":{\"city\":\"Rome\"},\"id\":\"call_2\"},\"status\":{\"state\":\"Completed\",\"response\":{\"name\":\"get_weather\",\"result\":\"31 °C\",\"id\":\"call_2\"}},\"provider_call_id\":\"call_2\",\"turn\":1,\"index\":1,\"fingerprint\":\"x1:75fb016e7934e94284e42e78648a1a38\",\"requested_at\":1767294018500000,\"ended_at\":1767294018500000}');

INSERT INTO toolledger_calls VALUES (1, 5, 4, X'9d18c522d2e998da7c501658bd8fa9d5', 1, 'from-ollama', 'call_cb963733640d1e8100010000', 'get_weather', 'Completed', 0, 'x1:a7f8bd38fd6d8abd03d17cf6a8688b53', 1, 1767286818500000, 1767286818500000, '{\"id\":\"call_cb963733640d1e8100010000\",\"call\":{\"name\":\"get_weather\",\"arguments\":{\"city\":\"Oslo\"},\"id\":\"call_cb963733640d1e8100010000\"},\"status\":{\"state\":\"Completed\",\"response\":{\"name\":\"get_weather\",\"result\":\"{\\\"error\\\": \\\"no such station\\\"}\",\"id\":\"call_cb963733640d1e8100010000\"}},\"turn\":1,\"fingerprint\":\"x1:a7f8bd38fd6d8abd03d17cf6a8688b53\",\"requested_at\":1767286818500000,\"ended_at\":1767286818500000}');

INSERT INTO toolledger_calls VALUES (1, 5, 5, X'9705d31fbc2490f6d2a7c77944f24855', 1, 'from-ollama', 'call_cb963733640d1e8100010001', 'get_weather', 'Completed', 0, 'x1:75fb016e7934e94284e42e78648a1a38', 1, 1767286818500000, 1767286818500000, '{\"id\":\"call_cb963733640d1e8100010001\",\"call\":{\"name\":\"get_weather\",\"arguments\":{\"city\":\"Rome\"},\"id\":\"call_cb963733640d1e8100010001\"},\"status\":{\"state\":\"Completed\",\"response\":{\"name\":\"get_weather\",\"result\":\"31 °C\",\"id\":\"call_cb963733640d1e8100010001\"}},\"turn\":1,\"index\":1,\"fingerprint\":\"x1:75fb016e7934e94284e42e78648a1a38\",\"requested_at\":1767286818500000,\"ended_at\":1767286818500000}');

INSERT INTO toolledger_calls VALUES (1, 6, 3, X'd80498f604a5f84b6c91c98a8e78520e', 1, 'from-anthropic', 'toolu_1', 'get_weather', 'Failed', 0, 'x1:6112b7210272391c2622ac6e22c0bd7b', 1, 1767272418500000, 1767272418500000, '{\"id\":\"toolu_1\",\"call\":{\"name\":\"get_weather\",\"arguments\":{\"city\":\"Oslo\",\"days\":1},\"id\":\"toolu_1\"},\"status\":{\"state\":\"Failed\",\"failure\":{\"kind\":\"internal\",\"message\":\"no such station\"}},\"provider_call_id\":\"toolu_1\",\"turn\":1,\"fingerprint\":\"x1:6112b7210272391c2622ac6e22c0bd7b\",\"requested_at\":1767272418500000,\"ended_at\":1767272418500000}');

INSERT INTO toolledger_calls VALUES (1, 6, 4, X'5726a3b1a104b132977107f146e1207c', 1, 'from-anthropic', 'toolu_2', 'get_weather', 'Completed', 0, 'x1:75fb016e7934e94284e42e78648a1a38', 1, 1767272418500000, 1767272418500000, '{\"id\":\"toolu_2\",\"call\":{\"name\":\"get_weather\",\"arguments\":{\"city\":\"Rome\"},\"id\":\"toolu_2\"},\"status\":{\"state\":\"Completed\",\"response\":{\"name\":\"get_weather\",\"result\":\"31 °C\",\"id\":\"toolu_2\"}},\"provider_call_id\":\"toolu_2\",\"turn\":1,\"index\":1,\"fingerprint\":\"x1:75fb016e7934e94284e42e78648a1a38\",\"requested_at\":1767272418500000,\"ended_at\":1767272418500000}');

INSERT INTO toolledger_calls VALUES (1, 7, 4, X'783536e29f9e7b8b0b1638b41a70a447', 1, 'from-openai', 'call_1', 'get_weather', 'Completed', 0, 'x1:a7f8bd38fd6d8abd03d17cf6a8688b53', 1, 1767290418500000, 1767290418500000, '{\"id\":\"call_1\",\"call\":{\"name\":\"get_weather\",\"arguments\":{\"city\":\"Oslo\"},\"id\":\"call_1\"},\"status\":{\"state\":\"Completed\",\"response\":{\"name\":\"get_weather\",\"result\":\"31 °C\",\"id\":\"call_1\"}},\"provider_call_id\":\"call_1\",\"turn\":1,\"fingerprint\":\"x1:a7f8bd38fd6d8abd03d17cf6a8688b53\",\"requested_at\":1767290418500000,\"ended_at\":1767290418500000}');

INSERT INTO toolledger_calls VALUES (1, 7, 5, X'e8d7491382657a3eac687af1e4948eed', 1, 'from-openai', 'call_2', 'get_weather', 'Completed', 0, 'x1:c598a6deec9f876d9e71c5bc2d5d5b45', 1, 1767290418500000, 1767290418500000, '{\"id\":\"call_2\",\"call\":{\"name\":\"get_weather\",\"arguments\":null,\"id\":\"call_2\",\"raw\":\"{\\\"city\\\": cut off\"},\"status\":{\"state\":\"Completed\",\"response\":{\"name\":\"get_weather\",\"result\":\"{\\\"error\\\": \\\"no such station\\\"}\",\"id\":\"call_2\"}},\"provider_call_id\":\"call_2\",\"turn\":1,\"index\":1,\"fingerprint\":\"x1:c598a6deec9f876d9e71c5bc2d5d5b45\",\"requested_at\":1767290418500000,\"ended_at\":1767290418500000}');

INSERT INTO toolledger_calls VALUES (1, 12, 4, X'47d4cb0b364602ab7c90edef6c515566', 1, 'from-mistral', 'abcDEF123', 'get_weather', 'Completed', 0, 'x1:a7f8bd38fd6d8abd03d17cf6a8688b53', 1, 1767283218500000, 1767283218500000, '{\"id\":\"abcDEF123\",\"call\":{\"name\":\"get_weather\",\"arguments\":{\"city\":\"Oslo\"},\"id\":\"abcDEF123\"},\"status\":{\"state\":\"Completed\",\"response\":{\"name\":\"get_weather\",\"result\":\"{\\\"error\\\": \\\"no such station\\\"}\",\"id\":\"abcDEF123\"}},\"provider_call_id\":\"abcDEF123\",\"turn\":1,\"fingerprint\":\"x1:a7f8bd38fd6d8abd03d17cf6a8688b53\",\"requested_at\":1767283218500000,\"ended_at\":1767283218500000}');

INSERT INTO toolledger_calls VALUES (1, 12, 5, X'6e4103b14f1888e8929da0c3e3296a96', 1, 'from-mistral', 'abcDEF124', 'get_weather', 'Completed', 0, 'x1:75fb016e7934e94284e42e78648a1a38', 1, 1767283218500000, 1767283218500000, '{\"id\":\"abcDEF124\",\"call\":{\"name\":\"get_weather\",\"arguments\":{\"city\":\"Rome\"},\"id\":\"abcDEF124\"},\"status\":{\"state\":\"Completed\",\"response\":{\"name\":\"get_weather\",\"result\":\"31 °C\",\"id\":\"abcDEF124\"}},\"provider_call_id\":\"abcDEF124\",\"turn\":1,\"index\":1,\"fingerprint\":\"x1:75fb016e7934e94284e42e78648a1a38\",\"requested_at\":1767283218500000,\"ended_at\":1767283218500000}');

INSERT INTO toolledger_calls VALUES (2, 2, 6, X'16fb9362e0ae4c7c8373788c29a5f58e', 1, 'support', 'call_find', 'find_order', 'Running', 1, 'x1:28d398749132dc0d81de9de538e00000', 0, 1767294020000000, 1767294020500000, '{\"id\":\"call_find\",\"call\":{\"name\":\"find_order\",\"arguments\":{\"number\":7},\"id\":\"call_find\"},\"status\":{\"state\":\"Running\",\"attempt\":1,\"arguments\":{\"number\":7}},\"attempts\":1,\"provider_call_id\":\"call_find\",\"turn\":1,\"fingerprint\":\"x1:28d398749132dc0d81de9de538e00000\",\"requested_at\":1767294020000000,\"started_at\":1767294020500000}');

INSERT INTO toolledger_calls VALUES (2, 2, 7, X'7cd4cd4937b100c684f33549937d7fd2', 1, 'support', 'call_cut', 'find_order', 'Pending', 0, 'x1:c9e0f2f9b5968bcc3474086feaade600', 0, 1767294020250000, 1767294020250000, '{\"id\":\"call_cut\",\"call\":{\"name\":\"find_order\",\"arguments\":null,\"id\":\"call_cut\",\"raw\":\"{\\\"number\\\": 7\"},\"provider_call_id\":\"call_cut\",\"turn\":1,\"index\":1,\"fingerprint\":\"x1:c9e0f2f9b5968bcc3474086feaade600\",\"requested_at\":1767294020250000}');

CREATE TABLE `toolledger_checkpoints` (
  `projection` bigint(20) NOT NULL,
  `lane` int(11) NOT NULL,
  `position` bigint(20) NOT NULL,
  `revision` bigint(20) NOT NULL,
  `totals` longtext NOT NULL,
  PRIMARY KEY (`projection`,`lane`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO toolledger_checkpoints VALUES (1, 0, 0, 0, '{}');

INSERT INTO toolledger_checkpoints VALUES (1, 1, 0, 0, '{}');

INSERT INTO toolledger_checkpoints VALUES (1, 2, 8, 1, '{}');

INSERT INTO toolledger_checkpoints VALUES (1, 3, 28, 1, '{\"events\":28,\"conversations\":3,\"numbered\":5,\"last\":[28,\"8225e7b5669f8388b49b812a00000000\"]}');

INSERT INTO toolledger_checkpoints VALUES (1, 4, 73, 1, '{\"events\":73,\"conversations\":2,\"numbered\":20,\"last\":[73,\"b99b48c9a3718da3b0c1835b00000000\"]}');

INSERT INTO toolledger_checkpoints VALUES (1, 5, 8, 1, '{\"events\":8,\"conversations\":1,\"numbered\":2,\"last\":[8,\"ed4cb9063b158c778a1ac3c300000000\"]}');

INSERT INTO toolledger_checkpoints VALUES (1, 6, 8, 1, '{\"events\":8,\"conversations\":1,\"numbered\":2,\"last\":[8,\"c7b216e109af8f71b3e3ba3a00000000\"]}');

INSERT INTO toolledger_checkpoints VALUES (1, 7, 8, 1, '{\"events\":8,\"conversations\":1,\"numbered\":2,\"last\":[8,\"b807471d1aaf8999a8e1fad800000000\"]}');

INSERT INTO toolledger_checkpoints VALUES (1, 8, 0, 0, '{}');

INSERT INTO toolledger_checkpoints VALUES (1, 9, 0, 0, '{}');

INSERT INTO toolledger_checkpoints VALUES (1, 10, 0, 0, '{}');

INSERT INTO toolledger_checkpoints VALUES (1, 11, 0, 0, '{}');

INSERT INTO toolledger_checkpoints VALUES (1, 12, 8, 1, '{\"events\":8,\"conversations\":1,\"numbered\":2,\"last\":[8,\"47951c9b195689d18af598bf00000000\"]}');

INSERT INTO toolledger_checkpoints VALUES (1, 13, 6, 1, '{}');

INSERT INTO toolledger_checkpoints VALUES (1, 14, 0, 0, '{}');

INSERT INTO toolledger_checkpoints VALUES (1, 15, 0, 0, '{}');

INSERT INTO toolledger_checkpoints VALUES (2, 0, 0, 0, '{}');

INSERT INTO toolledger_checkpoints VALUES (2, 1, 0, 0, '{}');

INSERT INTO toolledger_checkpoints VALUES (2, 2, 8, 1, '{\"events\":8,\"conversations\":1,\"numbered\":2,\"last\":[8,\"de9ed5db65d703819ce042e44ded7b38\"]}');

INSERT INTO toolledger_checkpoints VALUES (2, 3, 28, 1, '{}');

INSERT INTO toolledger_checkpoints VALUES (2, 4, 73, 1, '{}');

INSERT INTO toolledger_checkpoints VALUES (2, 5, 8, 1, '{}');

INSERT INTO toolledger_checkpoints VALUES (2, 6, 8, 1, '{}');

INSERT INTO toolledger_checkpoints VALUES (2, 7, 8, 1, '{}');

INSERT INTO toolledger_checkpoints VALUES (2, 8, 0, 0, '{}');

INSERT INTO toolledger_checkpoints VALUES (2, 9, 0, 0, '{}');

INSERT INTO toolledger_checkpoints VALUES (2, 10, 0, 0, '{}');

INSERT INTO toolledger_checkpoints VALUES (2, 11, 0, 0, '{}');

INSERT INTO toolledger_checkpoints VALUES (2, 12, 8, 1, '{}');

INSERT INTO toolledger_checkpoints VALUES (2, 13, 6, 1, '{\"events\":3,\"conversations\":1,\"last\":[6,\"50f3c7e9b23227b3cb31d35aa5e1c961\"]}');

INSERT INTO toolledger_checkpoints VALUES (2, 14, 0, 0, '{}');

INSERT INTO toolledger_checkpoints VALUES (2, 15, 0, 0, '{}');

CREATE TABLE `toolledger_conversations` (
  `lane` int(11) NOT NULL,
  `conversation` bigint(20) NOT NULL,
  `tenant` varchar(128) NOT NULL,
  `conversation_id` varchar(512) NOT NULL,
  `slice` int(11) NOT NULL,
  PRIMARY KEY (`lane`,`conversation`),
  UNIQUE KEY `toolledger_conversations_id` (`lane`,`tenant`,`conversation_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;

INSERT INTO toolledger_conversations VALUES (2, 1, 'acme', 'support', 176);

INSERT INTO toolledger_conversations VALUES (3, 1, '', 'every-member', 208);

INSERT INTO toolledger_conversations VALUES (3, 14, '', 'from-bedrock', 203);

INSERT INTO toolledger_conversations VALUES (3, 21, '', 'from-gemini', 241);

INSERT INTO toolledger_conversations VALUES (4, 1, '', 'support', 271);

INSERT INTO toolledger_conversations VALUES (4, 62, '', 'from-openai-responses', 309);

INSERT INTO toolledger_conversations VALUES (5, 1, '', 'from-ollama', 331);

INSERT INTO toolledger_conversations VALUES (6, 1, '', 'from-anthropic', 416);

INSERT INTO toolledger_conversations VALUES (7, 1, '', 'from-openai', 499);

INSERT INTO toolledger_conversations VALUES (12, 1, '', 'from-mistral', 807);

INSERT INTO toolledger_conversations VALUES (13, 1, 'acme', 'newer', 875);

CREATE TABLE `toolledger_events` (
  `lane` int(11) NOT NULL,
  `position` bigint(20) NOT NULL,
  `conversation` bigint(20) NOT NULL,
  `version` int(11) NOT NULL,
  `event_id` binary(16) NOT NULL,
  `recorded_at` bigint(20) NOT NULL,
  `tag` varchar(64) NOT NULL,
  `schema` int(11) NOT NULL,
  `fingerprint` binary(16) DEFAULT NULL,
  `digest` binary(16) NOT NULL,
  `payload` longtext NOT NULL,
  PRIMARY KEY (`lane`,`position`),
  UNIQUE KEY `toolledger_events_version` (`lane`,`conversation`,`version`),
  UNIQUE KEY `toolledger_events_id` (`lane`,`conversation`,`event_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;

INSERT INTO toolledger_events VALUES (2, 1, 1, 1, X'c4162c986d1d6e7618d5b8320e8ec0b0', 1767294018750000, 'run_started', 1, NULL, X'79188a712142c9c90076f0d07ae678ee', '{\"agent\":\"support\"}');

INSERT INTO toolledger_events VALUES (2, 2, 1, 2, X'4069ddf2f0e2b615c4d8fb1b1f548384', 1767294019000000, 'message', 1, NULL, X'832ec11ef7f4da64417a86fb6f273fde', '{\"role\":\"system\",\"parts\":[{\"type\":\"text\",\"text\":\"Be brief.\"}]}');

INSERT INTO toolledger_events VALUES (2, 3, 1, 3, X'bb7662591809d87d63330cfd50090fdb', 1767294019250000, 'message', 1, NULL, X'47c81a4e7e739bccc70902ceac6ea405', '{\"role\":\"user\",\"parts\":[{\"type\":\"text\",\"text\":\"Where is order 7?\"},{\"type\":\"image\",\"data\":\"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==\",\"media_type\":\"image/png\"}]}');

INSERT INTO toolledger_events VALUES (2, 4, 1, 4, X'09aea3e012306ca9b5600a902654fed6', 1767294019500000, 'tools_offered', 1, NULL, X'cf159ae0ed5bac84c139066400f0d667', '{\"iteration\":0,\"available\":[\"find_order\",\"refund\",\"drop\"],\"allowed\":[\"find_order\"],\"gates\":[{\"gate\":\"budget\",\"allow\":[\"find_order\",\"refund\"]},{\"gate\":\"quiet\"}]}');

INSERT INTO toolledger_events VALUES (2, 5, 1, 5, X'53690e6a8394affad44170da1d1b2f6b', 1767294019750000, 'message', 1, NULL, X'69687104f9472fb95930964e1a72fd1b', '{\"role\":\"assistant\",\"parts\":[{\"type\":\"text\",\"text\":\"I look it up.\"}],\"turn\":1}');

INSERT INTO toolledger_events VALUES (2, 6, 1, 6, X'eabb4bed220367cc1cf98bf36d0826f2', 1767294020000000, 'pending', 1, X'28d398749132dc0d81de9de538e00000', X'4930a63f44e3b92a794739b6de2d32c9', '{\"call\":{\"name\":\"find_order\",\"arguments\":{\"number\":7},\"id\":\"call_find\"},\"provider_call_id\":\"call_find\",\"turn\":1}');

INSERT INTO toolledger_events VALUES (2, 7, 1, 7, X'381fba854cd7b85667546fe328ae6666', 1767294020250000, 'pending', 1, X'c9e0f2f9b5968bcc3474086feaade600', X'24e55cccc8875219257ed454757ac346', '{\"call\":{\"name\":\"find_order\",\"arguments\":null,\"id\":\"call_cut\",\"raw\":\"{\\\"number\\\": 7\"},\"provider_call_id\":\"call_cut\",\"turn\":1,\"index\":1}');

INSERT INTO toolledger_events VALUES (2, 8, 1, 8, X'de9ed5db65d703819ce042e44ded7b38', 1767294020500000, 'running', 1, X'28d398749132dc0d81de9de538e00000', X'3f35a20d35eb3908ae82079aa43dfe1c', '{\"call_id\":\"call_find\",\"attempt\":1,\"arguments\":{\"number\":7}}');

INSERT INTO toolledger_events VALUES (3, 1, 1, 1, X'2ea59e766cfcad0fd2271cb8cdb1549f', 1767268800250000, 'run_started', 1, NULL, X'9aea3407b3ba94a752b80a5a505edc08', '{\"agent\":\"researcher\",\"parent_conversation_id\":\"parent\",\"parent_call_id\":\"call_parent\"}');

INSERT INTO toolledger_events VALUES (3, 2, 1, 2, X'6badf992a657017a27a1e8f8ee3c18c5', 1767268800500000, 'tools_offered', 1, NULL, X'a2ad823f6e67b5f3ade1188923375322', '{\"iteration\":3,\"available\":[\"drop_table\",\"search\"],\"allowed\":[\"search\"],\"gates\":[{\"gate\":\"budget\",\"allow\":[\"search\"]},{\"gate\":\"office hours\",\"allow\":[]},{\"gate\":\"no opinion\"}],\"conflict\":{\"gates\":[\"budget\",\"office hours\"],\"resolved\":\"open\"}}');

INSERT INTO toolledger_events VALUES (3, 3, 1, 3, X'a5de2039fd652a56ec906aec0aa8a537', 1767268800750000, 'message', 1, NULL, X'6dce662de6a7831276b98eb82db145bb', '{\"role\":\"user\",\"parts\":[{\"type\":\"text\",\"text\":\"Naïve \\\"text\\\" 🙂 \\n\"},{\"type\":\"image\",\"url\":\"https://example.com/a.png\",\"detail\":\"low\"},{\"type\":\"image\",\"data\":\"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==\",\"media_type\":\"image/png\",\"detail\":\"high\"},{\"type\":\"document\",\"url\":\"https://example.com/a.pdf\",\"name\":\"a.pdf\"},{\"type\":\"document\",\"data\":\"JVBERi0xLjQKJSVFT0YK\",\"name\":\"b.pdf\"},{\"type\":\"opaque\",\"provider\":\"anthropic\",\"data\":{\"type\":\"search_result\",\"z\":1,\"a\":[null,1.5]}}],\"turn\":2,\"calls\":1,\"provider\":\"anthropic\",\"native\":{\"content\":[null,{\"text\":\"as it came\",\"type\":\"text\"}],\"role\":\"user\"},\"exact\":true,\"joined\":true,\"call_id\":\"call_unknown\",\"results\":[\"call_every\"]}');

INSERT INTO toolledger_events VALUES (3, 4, 1, 4, X'c7679f4d90f58e68d7392bb53a8fb0b5', 1767268801000000, 'pending', 1, X'31eaf52155aecfa0acb45e21dbdbed83', X'1146c0c420c5e6bd625218a0442587aa', '{\"call\":{\"name\":\"search\",\"arguments\":[\"no\",\"object\"],\"id\":\"call_every\",\"raw\":\"[\\\"no\\\",\\\"object\\\"]\"},\"provider_call_id\":\"toolu_1\",\"turn\":2,\"index\":1,\"imported\":true}');

INSERT INTO toolledger_events VALUES (3, 5, 1, 5, X'bd608195ae3e10f327036a12ba7f7d69', 1767268801250000, 'approved', 1, X'14d8414959de21ac74f20d38f10fd2ae', X'46722b4ee6e969033751a1ef67b2bf5d', '{\"call_id\":\"call_every\",\"edited_call\":{\"name\":\"search\",\"arguments\":{\"q\":\"rig\",\"deep\":{\"n\":1,\"x\":1.0}},\"id\":\"call_every\"},\"by\":\"grace\",\"reason\":\"looks right\"}');

INSERT INTO toolledger_events VALUES (3, 6, 1, 6, X'383cc834d572bd14ef05a7398c8aab5d', 1767268801500000, 'running', 1, X'14d8414959de21ac74f20d38f10fd2ae', X'9245106815718dc4cf2b8a81246016a4', '{\"call_id\":\"call_every\",\"attempt\":1,\"arguments\":{\"q\":\"rig\",\"deep\":{\"n\":1,\"x\":1.0}}}');

INSERT INTO toolledger_events VALUES (3, 7, 1, 7, X'6f2cbb104f08863d25beebc795434e82', 1767268801750000, 'failed', 1, X'14d8414959de21ac74f20d38f10fd2ae', X'747e63b943d32eedb420f8d424058e22', '{\"call_id\":\"call_every\",\"failure\":{\"kind\":\"rate_limit\",\"message\":\"429: slow down, Zoë\",\"model_message\":\"The service is busy.\",\"code\":\"too_many_requests\",\"http_status\":429,\"retry_after\":1.5,\"exception\":\"httpx.HTTPStatusError\",\"traceback\":\"Traceback (most recent call last):\\n  …\\n\"},\"attempt\":1,\"duration\":250000,\"delay\":1500000,\"provider\":\"anthropic\",\"native\":{\"is_error\":true,\"content\":\"429\",\"type\":\"tool_result\",\"tool_use_id\":\"toolu_1\"}}');

INSERT INTO toolledger_events VALUES (3, 8, 1, 8, X'7c23b3d7d401159a5b3a14c18cb41c4b', 1767268802000000, 'running', 1, X'14d8414959de21ac74f20d38f10fd2ae', X'a8fe71aed5a7c5186249120d0aa265cb', '{\"call_id\":\"call_every\",\"attempt\":2,\"arguments\":{\"q\":\"rig\"}}');

INSERT INTO toolledger_events VALUES (3, 9, 1, 9, X'15bac7fcdf1f5c8c24cf59658f614f0b', 1767268802250000, 'completed', 1, X'14d8414959de21ac74f20d38f10fd2ae', X'2cc5b24ab4aaca183ba150bfb0191b01', '{\"call_id\":\"call_every\",\"response\":{\"name\":\"search\",\"result\":[\"a chart\",{\"type\":\"image\",\"data\":\"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==\"}],\"id\":\"call_every\"},\"attempt\":2,\"duration\":1000001,\"synthetic\":true,\"lossy\":true,\"provider\":\"anthropic\",\"native\":{\"type\":\"tool_result\",\"content\":[],\"tool_use_id\":\"toolu_1\"},\"in_parts\":true}');

INSERT INTO toolledger_events VALUES (3, 10, 1, 10, X'e90e11d02206184b6a226035446e3246', 1767268802500000, 'pending', 1, X'30d3d89d639562f921fc63df4c90f4d3', X'c5eacbc045d02326388adac9baa7bf26', '{\"call\":{\"name\":\"drop_table\",\"arguments\":{\"name\":\"orders\"},\"id\":\"call_refused\"},\"provider_call_id\":\"toolu_2\",\"turn\":2,\"index\":2,\"imported\":true}');

INSERT INTO toolledger_events VALUES (3, 11, 1, 11, X'bb9013cad45634951c8849fb71d42ea8', 1767268802750000, 'rejected', 1, X'30d3d89d639562f921fc63df4c90f4d3', X'01d8c2e71d3c0fd6a9a3d68ae341d238', '{\"call_id\":\"call_refused\",\"reason\":\"not in production\",\"source\":\"gate\",\"by\":\"grace\",\"details\":{\"gate\":\"budget\",\"left\":0},\"provider\":\"anthropic\",\"native\":{\"type\":\"tool_result\",\"tool_use_id\":\"toolu_2\",\"content\":\"refused\"}}');

INSERT INTO toolledger_events VALUES (3, 12, 1, 12, X'7ce2ca1c92fa21e4d31f0e50f6f9b605', 1767268803000000, 'of_a_later_version', 7, NULL, X'9d6fea7ac04305641bb550e07340c680', '{\"z\":1,\"a\":{\"nested\":[1,2.50]}}');

INSERT INTO toolledger_events VALUES (3, 13, 1, 13, X'ccf0a08976c9b9bbdb372d0a40574034', 1767268803250000, 'run_ended', 1, NULL, X'7d57ea1ddd47f1f30de3877e0f7a95bc', '{\"reason\":\"terminated\",\"failure\":{\"kind\":\"rate_limit\",\"message\":\"429: slow down, Zoë\",\"model_message\":\"The service is busy.\",\"code\":\"too_many_requests\",\"http_status\":429,\"retry_after\":1.5,\"exception\":\"httpx.HTTPStatusError\",\"traceback\":\"Traceback (most recent call last):\\n  …\\n\"}}');

INSERT INTO toolledger_events VALUES (3, 14, 14, 1, X'671c1cdc176f87399276ce3b00000000', 1767276018500000, 'message', 1, NULL, X'8479257d4cc56756b222f347a885ab02', '{\"role\":\"user\",\"parts\":[{\"type\":\"text\",\"text\":\"And the weather in Oslo and Rome?\"},{\"type\":\"opaque\",\"provider\":\"bedrock\",\"data\":{\"document\":{\"format\":\"pdf\",\"name\":\"a\",\"source\":{\"bytes\":{\"$bytes\":\"JVBERi0xLjQKJSVFT0YK\"}}}}},{\"type\":\"image\",\"data\":\"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==\",\"media_type\":\"image/png\"}],\"provider\":\"bedrock\",\"native\":{\"role\":\"user\",\"content\":[{\"text\":\"And the weather in Oslo and Rome?\"},{\"document\":{\"format\":\"pdf\",\"name\":\"a\",\"source\":{\"bytes\":{\"$bytes\":\"JVBERi0xLjQKJSVFT0YK\"}}}},{\"image\":{\"format\":\"png\",\"source\":{\"bytes\":{\"$bytes\":\"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==\"}}}}]},\"exact\":true}');

INSERT INTO toolledger_events VALUES (3, 15, 14, 2, X'434d6f306a3788e7a0bac35000000000', 1767276018500000, 'message', 1, NULL, X'b468ee9a8396217026c8c6b72768b8d0', '{\"role\":\"assistant\",\"parts\":[{\"type\":\"opaque\",\"provider\":\"bedrock\",\"data\":{\"reasoningContent\":{\"reasoningText\":{\"text\":\"Two cities.\",\"signature\":\"c2ln\"}}}},{\"type\":\"text\",\"text\":\"Let me look.\"}],\"turn\":1,\"calls\":2,\"provider\":\"bedrock\",\"native\":{\"role\":\"assistant\",\"content\":[{\"reasoningContent\":{\"reasoningText\":{\"text\":\"Two cities.\",\"signature\":\"c2ln\"}}},{\"text\":\"Let me look.\"},{\"toolUse\":{\"toolUseId\":\"tooluse_1\",\"name\":\"get_weather\",\"input\":{\"city\":\"Oslo\"}}},{\"toolUse\":{\"toolUseId\":\"tooluse_2\",\"name\":\"get_weather\",\"input\":{\"city\":\"Rome\"}}}]},\"exact\":true}');

INSERT INTO toolledger_events VALUES (3, 16, 14, 3, X'434d6f306a3788e7a0bac35000000001', 1767276018500000, 'pending', 1, X'a7f8bd38fd6d8abd03d17cf6a8688b53', X'f0683bd3e1da1640bc5ca9f642fbebd2', '{\"call\":{\"name\":\"get_weather\",\"arguments\":{\"city\":\"Oslo\"},\"id\":\"tooluse_1\"},\"provider_call_id\":\"tooluse_1\",\"turn\":1,\"imported\":true}');

INSERT INTO toolledger_events VALUES (3, 17, 14, 4, X'434d6f306a3788e7a0bac35000000002', 1767276018500000, 'pending', 1, X'75fb016e7934e94284e42e78648a1a38', X'3ca65c1d18619536ad68c8a3cbd614a4', '{\"call\":{\"name\":\"get_weather\",\"arguments\":{\"city\":\"Rome\"},\"id\":\"tooluse_2\"},\"provider_call_id\":\"tooluse_2\",\"turn\":1,\"index\":1,\"imported\":true}');

INSERT INTO toolledger_events VALUES (3, 18, 14, 5, X'370920696f1e8bb1bb119d1800000000', 1767276018500000, 'failed', 1, X'a7f8bd38fd6d8abd03d17cf6a8688b53', X'8b8809b2476b7307892af5e07c19b16b', '{\"call_id\":\"tooluse_1\",\"failure\":{\"kind\":\"internal\",\"message\":\"no such station\"}}');

INSERT INTO toolledger_events VALUES (3, 19, 14, 6, X'370920696f1e8bb1bb119d1800000001', 1767276018500000, 'completed', 1, X'75fb016e7934e94284e42e78648a1a38', X'98cfedf9a5a58d5aa2874853af903b07', '{\"call_id\":\"tooluse_2\",\"response\":{\"name\":\"get_weather\",\"result\":\"{\\\"celsius\\\":31}\",\"id\":\"tooluse_2\"},\"provider\":\"bedrock\",\"native\":{\"toolResult\":{\"toolUseId\":\"tooluse_2\",\"content\":[{\"json\":{\"celsius\":31}}],\"status\":\"success\"}}}');

INSERT INTO toolledger_events VALUES (3, 20, 14, 7, X'aab546143248870ebc57bb1e00000000', 1767276018500000, 'message', 1, NULL, X'a92422506803fccc1f8b1c5a5e498b98', '{\"role\":\"assistant\",\"parts\":[{\"type\":\"text\",\"text\":\"31 °C in Rome.\"},{\"type\":\"opaque\",\"provider\":\"bedrock\",\"data\":{\"cachePoint\":{\"type\":\"default\"}}}],\"turn\":2,\"provider\":\"bedrock\",\"native\":{\"role\":\"assistant\",\"content\":[{\"text\":\"31 °C in Rome.\"},{\"cachePoint\":{\"type\":\"default\"}}]},\"exact\":true}');

INSERT INTO toolledger_events VALUES (3, 21, 21, 1, X'e149cee1fa0c8900a685900f00000000', 1767279618500000, 'message', 1, NULL, X'c5a26ea308798580c5575f475dca6274', '{\"role\":\"user\",\"parts\":[{\"type\":\"text\",\"text\":\"And the weather in Oslo and Rome?\"},{\"type\":\"opaque\",\"provider\":\"gemini\",\"data\":{\"inlineData\":{\"mimeType\":\"image/png\",\"data\":\"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==\",\"displayName\":\"a.png\"}}},{\"type\":\"opaque\",\"provider\":\"gemini\",\"data\":{\"inline_data\":{\"mime_type\":\"application/pdf\",\"data\":\"JVBERi0xLjQKJSVFT0YK\"}}}],\"provider\":\"gemini\",\"exact\":true}');

INSERT INTO toolledger_events VALUES (3, 22, 21, 2, X'c494f3cc858f8d7f81a6b89300000000', 1767279618500000, 'message', 1, NULL, X'058fb92cd737a7a65c23a35b354c8fb5', '{\"role\":\"assistant\",\"parts\":[{\"type\":\"opaque\",\"provider\":\"gemini\",\"data\":{\"text\":\"Two cities.\",\"thought\":true}},{\"type\":\"text\",\"text\":\"Let me look.\"}],\"turn\":1,\"calls\":2,\"provider\":\"gemini\",\"native\":{\"role\":\"model\",\"parts\":[{\"text\":\"Two cities.\",\"thought\":true},{\"text\":\"Let me look.\"},{\"functionCall\":{\"name\":\"get_weather\",\"args\":{\"city\":\"Oslo\"}},\"thoughtSignature\":\"c2ln\"},{\"functionCall\":{\"name\":\"get_weather\",\"args\":{\"city\":\"Rome\"}}}]},\"exact\":true}');

INSERT INTO toolledger_events VALUES (3, 23, 21, 3, X'c494f3cc858f8d7f81a6b89300000001', 1767279618500000, 'pending', 1, X'a7f8bd38fd6d8abd03d17cf6a8688b53', X'ad4871c2ed61548d709e1f483818337e', '{\"call\":{\"name\":\"get_weather\",\"arguments\":{\"city\":\"Oslo\"},\"id\":\"call_cb740bf6b94bda4700010000\"},\"turn\":1,\"imported\":true}');

INSERT INTO toolledger_events VALUES (3, 24, 21, 4, X'c494f3cc858f8d7f81a6b89300000002', 1767279618500000, 'pending', 1, X'75fb016e7934e94284e42e78648a1a38', X'8e249c777a987272c7a07ae70db26287', '{\"call\":{\"name\":\"get_weather\",\"arguments\":{\"city\":\"Rome\"},\"id\":\"call_cb740bf6b94bda4700010001\"},\"turn\":1,\"index\":1,\"imported\":true}');

INSERT INTO toolledger_events VALUES (3, 25, 21, 5, X'2879b2f07cc88a569916530700000000', 1767279618500000, 'failed', 1, X'a7f8bd38fd6d8abd03d17cf6a8688b53', X'7e684bad4653dbde580265aae388cb97', '{\"call_id\":\"call_cb740bf6b94bda4700010000\",\"failure\":{\"kind\":\"internal\",\"message\":\"no such station\"}}');

INSERT INTO toolledger_events VALUES (3, 26, 21, 6, X'2879b2f07cc88a569916530700000001', 1767279618500000, 'completed', 1, X'75fb016e7934e94284e42e78648a1a38', X'33c1866c0729012f167888c4f51100ab', '{\"call_id\":\"call_cb740bf6b94bda4700010001\",\"response\":{\"name\":\"get_weather\",\"result\":\"31 °C\",\"id\":\"call_cb740bf6b94bda4700010001\"}}');

INSERT INTO toolledger_events VALUES (3, 27, 21, 7, X'2879b2f07cc88a569916530700000002', 1767279618500000, 'message', 1, NULL, X'1adc873bb047ad1855cda4c370e432fc', '{\"role\":\"tool\",\"provider\":\"gemini\",\"native\":{\"parts\":[null,null],\"role\":\"function\"},\"exact\":true,\"joined\":true,\"results\":[\"call_cb740bf6b94bda4700010000\",\"call_cb740bf6b94bda4700010001\"]}');

INSERT INTO toolledger_events VALUES (3, 28, 21, 8, X'8225e7b5669f8388b49b812a00000000', 1767279618500000, 'message', 1, NULL, X'0749447ddfc490430fadda7acaa42b8c', '{\"role\":\"assistant\",\"parts\":[{\"type\":\"text\",\"text\":\"31 °C in Rome.\"}],\"turn\":2,\"provider\":\"gemini\",\"native\":{\"role\":\"model\",\"parts\":[{\"text\":\"31 °C in Rome.\",\"thoughtSignature\":\"ZW5k\"}]},\"exact\":true}');

INSERT INTO toolledger_events VALUES (4, 1, 1, 1, X'00471b7bea4c0715b72d85b437c81777', 1767268803500000, 'run_started', 1, NULL, X'79188a712142c9c90076f0d07ae678ee', '{\"agent\":\"support\"}');

INSERT INTO toolledger_events VALUES (4, 2, 1, 2, X'e6f3c1e5d5868d562788aa0724f913bc', 1767268803750000, 'message', 1, NULL, X'832ec11ef7f4da64417a86fb6f273fde', '{\"role\":\"system\",\"parts\":[{\"type\":\"text\",\"text\":\"Be brief.\"}]}');

INSERT INTO toolledger_events VALUES (4, 3, 1, 3, X'dc896c6d5bf759d18ab97fa5a2739451', 1767268804000000, 'message', 1, NULL, X'47c81a4e7e739bccc70902ceac6ea405', '{\"role\":\"user\",\"parts\":[{\"type\":\"text\",\"text\":\"Where is order 7?\"},{\"type\":\"image\",\"data\":\"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==\",\"media_type\":\"image/png\"}]}');

INSERT INTO toolledger_events VALUES (4, 4, 1, 4, X'9abe3edbf5a5e377d9c6ee9a85f258e0', 1767268804250000, 'tools_offered', 1, NULL, X'cf159ae0ed5bac84c139066400f0d667', '{\"iteration\":0,\"available\":[\"find_order\",\"refund\",\"drop\"],\"allowed\":[\"find_order\"],\"gates\":[{\"gate\":\"budget\",\"allow\":[\"find_order\",\"refund\"]},{\"gate\":\"quiet\"}]}');

INSERT INTO toolledger_events VALUES (4, 5, 1, 5, X'fcf15bfdabb104dd1ada1e8669239c7b', 1767268804500000, 'message', 1, NULL, X'69687104f9472fb95930964e1a72fd1b', '{\"role\":\"assistant\",\"parts\":[{\"type\":\"text\",\"text\":\"I look it up.\"}],\"turn\":1}');

INSERT INTO toolledger_events VALUES (4, 6, 1, 6, X'064d8f11be730dab565c846aa18e20de', 1767268804750000, 'pending', 1, X'28d398749132dc0d81de9de538e00000', X'4930a63f44e3b92a794739b6de2d32c9', '{\"call\":{\"name\":\"find_order\",\"arguments\":{\"number\":7},\"id\":\"call_find\"},\"provider_call_id\":\"call_find\",\"turn\":1}');

INSERT INTO toolledger_events VALUES (4, 7, 1, 7, X'68976b9afafe9bf0165ae87deea246cb', 1767268805000000, 'pending', 1, X'c9e0f2f9b5968bcc3474086feaade600', X'24e55cccc8875219257ed454757ac346', '{\"call\":{\"name\":\"find_order\",\"arguments\":null,\"id\":\"call_cut\",\"raw\":\"{\\\"number\\\": 7\"},\"provider_call_id\":\"call_cut\",\"turn\":1,\"index\":1}');

INSERT INTO toolledger_events VALUES (4, 8, 1, 8, X'4d515239e8c9c547aa41204f39dfc634', 1767268805250000, 'running', 1, X'28d398749132dc0d81de9de538e00000', X'3f35a20d35eb3908ae82079aa43dfe1c', '{\"call_id\":\"call_find\",\"attempt\":1,\"arguments\":{\"number\":7}}');

INSERT INTO toolledger_events VALUES (4, 9, 1, 9, X'08b0342232b8ab386359908a800df982', 1767268805500000, 'failed', 1, X'28d398749132dc0d81de9de538e00000', X'759687705150ed1b32d2cbc805229929', '{\"call_id\":\"call_find\",\"failure\":{\"kind\":\"rate_limit\",\"message\":\"429: slow down, Zoë\",\"model_message\":\"The service is busy.\",\"code\":\"too_many_requests\",\"http_status\":429,\"retry_after\":1.5,\"exception\":\"httpx.HTTPStatusError\",\"traceback\":\"Traceback (most recent call last):\\n  …\\n\"},\"attempt\":1,\"delay\":1500000}');

INSERT INTO toolledger_events VALUES (4, 10, 1, 10, X'8a8ab79cacf90daa3a54afb09ad1fa5e', 1767268805750000, 'running', 1, X'28d398749132dc0d81de9de538e00000', X'3ef18250fb205cf468b0c69f6f53f7c4', '{\"call_id\":\"call_find\",\"attempt\":2,\"arguments\":{\"number\":7}}');

INSERT INTO toolledger_events VALUES (4, 11, 1, 11, X'8b5f299ee4e621c733e69d8edb54d09d', 1767268806000000, 'failed', 1, X'28d398749132dc0d81de9de538e00000', X'cd2a6ba7e99f4ba5d7b58ac15d0e1d7d', '{\"call_id\":\"call_find\",\"failure\":{\"kind\":\"transient\",\"message\":\"no answer within 30 s\",\"code\":\"timeout\",\"exception\":\"TimeoutError\"},\"attempt\":2,\"delay\":250000}');

INSERT INTO toolledger_events VALUES (4, 12, 1, 12, X'60d2da27478a8eb09860df25b02e76da', 1767268806250000, 'running', 1, X'28d398749132dc0d81de9de538e00000', X'51b7df231abddacb615eda246492313c', '{\"call_id\":\"call_find\",\"attempt\":3,\"arguments\":{\"number\":7}}');

INSERT INTO toolledger_events VALUES (4, 13, 1, 13, X'ecc449272c77a88051540400abfeeb78', 1767268806500000, 'completed', 1, X'28d398749132dc0d81de9de538e00000', X'eb23b82f05a6495bdfa872cda3182ba5', '{\"call_id\":\"call_find\",\"response\":{\"name\":\"find_order\",\"result\":{\"order\":7,\"status\":\"shipped\",\"ratio\":0.1,\"who\":\"Zoë\"},\"id\":\"call_find\"},\"attempt\":3}');

INSERT INTO toolledger_events VALUES (4, 14, 1, 14, X'2a4ac6907a9aca5941470d582837623c', 1767268806750000, 'failed', 1, X'c9e0f2f9b5968bcc3474086feaade600', X'de5b96d0ecae643c6014d48f37483ac7', '{\"call_id\":\"call_cut\",\"failure\":{\"kind\":\"validation\",\"message\":\"the arguments are not JSON\"}}');

INSERT INTO toolledger_events VALUES (4, 15, 1, 15, X'41792692d9ccb7ece2b76256c4be7555', 1767268807000000, 'message', 1, NULL, X'd9151c40ee8eaef949a439cc98d46d3c', '{\"role\":\"assistant\",\"parts\":[{\"type\":\"text\",\"text\":\"\"}],\"turn\":2}');

INSERT INTO toolledger_events VALUES (4, 16, 1, 16, X'39511286a7a6752282ebaaf3ab010f8f', 1767268807250000, 'pending', 1, X'c8f5484a5d00298c10b39023c8a632eb', X'0a9bd6970248c725269935a78fcf907b', '{\"call\":{\"name\":\"drop\",\"arguments\":{\"order\":0},\"id\":\"call_human\"},\"provider_call_id\":\"call_human\",\"turn\":2}');

INSERT INTO toolledger_events VALUES (4, 17, 1, 17, X'761c2235dcf0462288d74426a1453fac', 1767268807500000, 'rejected', 1, X'c8f5484a5d00298c10b39023c8a632eb', X'7e0f343777febe78134ec8f52eeea636', '{\"call_id\":\"call_human\",\"reason\":\"refused by human\",\"by\":\"grace\",\"details\":{\"n\":0}}');

INSERT INTO toolledger_events VALUES (4, 18, 1, 18, X'208a081eb518a6ea5bbcb1a734eba166', 1767268807750000, 'pending', 1, X'cc685281af3af5eadec269b6c655486d', X'2d917357e5c4a3156f23887817969ce3', '{\"call\":{\"name\":\"drop\",\"arguments\":{\"order\":1},\"id\":\"call_gate\"},\"provider_call_id\":\"call_gate\",\"turn\":3}');

INSERT INTO toolledger_events VALUES (4, 19, 1, 19, X'f0722b8d7a37292b7a1332178c11bbb8', 1767268808000000, 'rejected', 1, X'cc685281af3af5eadec269b6c655486d', X'52dbbf5257a3e7041b5747a6903bc344', '{\"call_id\":\"call_gate\",\"reason\":\"refused by gate\",\"source\":\"gate\",\"by\":\"grace\",\"details\":{\"n\":1}}');

INSERT INTO toolledger_events VALUES (4, 20, 1, 20, X'c3d5b12836d46449fdf0801f9dcedc95', 1767268808250000, 'pending', 1, X'255e3123ef625277105ff7c3d6c2bdd1', X'eadd10d0bac86bde99bc220cba8f1473', '{\"call\":{\"name\":\"drop\",\"arguments\":{\"order\":2},\"id\":\"call_hook\"},\"provider_call_id\":\"call_hook\",\"turn\":4}');

INSERT INTO toolledger_events VALUES (4, 21, 1, 21, X'37d36ff0e5e916361e5e9a06b9136d23', 1767268808500000, 'rejected', 1, X'255e3123ef625277105ff7c3d6c2bdd1', X'412e301978396490875c3147ef665cf0', '{\"call_id\":\"call_hook\",\"reason\":\"refused by hook\",\"source\":\"hook\",\"by\":\"grace\",\"details\":{\"n\":2}}');

INSERT INTO toolledger_events VALUES (4, 22, 1, 22, X'7e1be7ff394479c716511b74026f48a5', 1767268808750000, 'pending', 1, X'e5df7019bfb890082ecc464defd2c3f5', X'0cc70bf3c0f2971b1c5c9d5ef1102eb9', '{\"call\":{\"name\":\"drop\",\"arguments\":{\"order\":3},\"id\":\"call_rule\"},\"provider_call_id\":\"call_rule\",\"turn\":5}');

INSERT INTO toolledger_events VALUES (4, 23, 1, 23, X'9d794b7d8abc71bf64197c60ae580fb0', 1767268809000000, 'rejected', 1, X'e5df7019bfb890082ecc464defd2c3f5', X'4a36dd4749445ae721f42051abfa0013', '{\"call_id\":\"call_rule\",\"reason\":\"refused by rule\",\"source\":\"rule\",\"by\":\"grace\",\"details\":{\"n\":3}}');

INSERT INTO toolledger_events VALUES (4, 24, 1, 24, X'e96451e94500ac3f0d5315813a99c8ce', 1767268809250000, 'pending', 1, X'0d39c040303e03e4d92cf36812e47fba', X'048bbe6c862ff2555af7e4815d847cb8', '{\"call\":{\"name\":\"drop\",\"arguments\":{\"order\":4},\"id\":\"call_limit\"},\"provider_call_id\":\"call_limit\",\"turn\":6}');

INSERT INTO toolledger_events VALUES (4, 25, 1, 25, X'27615785c69994c1aca60591f1a720c9', 1767268809500000, 'rejected', 1, X'0d39c040303e03e4d92cf36812e47fba', X'557c713aa3300dd11fd6e4d6a24819e6', '{\"call_id\":\"call_limit\",\"reason\":\"refused by limit\",\"source\":\"limit\",\"by\":\"grace\",\"details\":{\"n\":4}}');

INSERT INTO toolledger_events VALUES (4, 26, 1, 26, X'e1e6b31aa41404f589ebac89d20a63b8', 1767268809750000, 'pending', 1, X'bca7fddb77deb3962e09a87792d2350f', X'754beb471bfe79f4c6123e363d97536d', '{\"call\":{\"name\":\"drop\",\"arguments\":{\"order\":5},\"id\":\"call_sibling\"},\"provider_call_id\":\"call_sibling\",\"turn\":7}');

INSERT INTO toolledger_events VALUES (4, 27, 1, 27, X'2216728d25fef88c2358c423382596bc', 1767268810000000, 'rejected', 1, X'bca7fddb77deb3962e09a87792d2350f', X'3135f7ed77b10cb1457b22b9440f79b8', '{\"call_id\":\"call_sibling\",\"reason\":\"refused by sibling\",\"source\":\"sibling\",\"by\":\"grace\",\"details\":{\"n\":5}}');

INSERT INTO toolledger_events VALUES (4, 28, 1, 28, X'0744de276aff8e84c9e5c4c43f0edb45', 1767268810250000, 'pending', 1, X'cead762695e7305bebbd55ad91c0e112', X'66a16d981d3ef81e4bc288b9d5dc36e7', '{\"call\":{\"name\":\"refund\",\"arguments\":{\"order\":7,\"amount\":9.5},\"id\":\"call_refund\"},\"provider_call_id\":\"call_refund\",\"turn\":8}');

INSERT INTO toolledger_events VALUES (4, 29, 1, 29, X'9b35df8a2c074dbb4c8f4a5c979418ff', 1767268810500000, 'approved', 1, X'f6add1edc7c6034df0e882bda5ff2ed4', X'8ac5df8287f11471d2a3ffd623a3bfd5', '{\"call_id\":\"call_refund\",\"edited_call\":{\"name\":\"refund\",\"arguments\":{\"order\":7,\"amount\":9.0},\"id\":\"call_refund\"},\"by\":\"grace\",\"reason\":\"less the postage\"}');

INSERT INTO toolledger_events VALUES (4, 30, 1, 30, X'ff96908725d468b1be601e40eb833122', 1767268810750000, 'running', 1, X'f6add1edc7c6034df0e882bda5ff2ed4', X'ddfd259be560c729a37218cca607b79e', '{\"call_id\":\"call_refund\",\"attempt\":1,\"arguments\":{\"order\":7,\"amount\":9.0}}');

INSERT INTO toolledger_events VALUES (4, 31, 1, 31, X'cbcbd98447572b282a81c4ad0b617e3a', 1767268811000000, 'completed', 1, X'f6add1edc7c6034df0e882bda5ff2ed4', X'c1a57646dc4816335273bc28e254be8f', '{\"call_id\":\"call_refund\",\"response\":{\"name\":\"refund\",\"result\":\"refunded\",\"id\":\"call_refund\"},\"attempt\":1}');

INSERT INTO toolledger_events VALUES (4, 32, 1, 32, X'80dddcc56c034740361b4aa1db449a91', 1767268811250000, 'pending', 1, X'0bc5fe2d6b262f0b3295c736c942020a', X'c05e769d48d6e2362b805680f6d80ba0', '{\"call\":{\"name\":\"refund\",\"arguments\":{\"order\":7,\"amount\":1},\"id\":\"call_skipped\"},\"provider_call_id\":\"call_skipped\",\"turn\":9}');

INSERT INTO toolledger_events VALUES (4, 33, 1, 33, X'91c81f6b94c7eecd7adb02631293f8e3', 1767268811500000, 'completed', 1, X'0bc5fe2d6b262f0b3295c736c942020a', X'73b7efc622a913462bd76954251a44f1', '{\"call_id\":\"call_skipped\",\"response\":{\"name\":\"refund\",\"result\":\"was done already\",\"id\":\"call_skipped\"},\"synthetic\":true}');

INSERT INTO toolledger_events VALUES (4, 34, 1, 34, X'aac4fe5438e9220a85125e0abc2f4e34', 1767268811750000, 'pending', 1, X'5c3208ab5ce9bb37081139769c5b149e', X'62747449a3fa492cb815974b8b3ad1c7', '{\"call\":{\"name\":\"refund\",\"arguments\":[1,2],\"id\":\"call_list\",\"raw\":\"[1,2]\"},\"provider_call_id\":\"call_list\",\"turn\":10}');

INSERT INTO toolledger_events VALUES (4, 35, 1, 35, X'1a4b7c8423ec07045879acd63f83ae01', 1767268812000000, 'pending', 1, X'1bd4e0cb2f9a397314535b58c67a90de', X'a97bfaf465c48a69f2e581e3448dfbc2', '{\"call\":{\"name\":\"refund\",\"arguments\":{\"order\":7,\"amount\":2},\"id\":\"call_bytes\"},\"provider_call_id\":\"call_bytes\",\"turn\":10,\"index\":1}');

INSERT INTO toolledger_events VALUES (4, 36, 1, 36, X'327c427c6f9a40f754ea62c2a73b9519', 1767268812250000, 'running', 1, X'1bd4e0cb2f9a397314535b58c67a90de', X'ecb2b58e17c201feabe7f8be3fe1b250', '{\"call_id\":\"call_bytes\",\"attempt\":1,\"arguments\":{\"order\":7,\"amount\":2}}');

INSERT INTO toolledger_events VALUES (4, 37, 1, 37, X'0d71b1007fa114dadb249c80e0b7f375', 1767268812500000, 'completed', 1, X'1bd4e0cb2f9a397314535b58c67a90de', X'13eabe9a73af6ada84f8c709d1480378', '{\"call_id\":\"call_bytes\",\"response\":{\"name\":\"refund\",\"result\":{\"receipt\":\"00ff\",\"of\":[2]},\"id\":\"call_bytes\"},\"attempt\":1,\"lossy\":true}');

INSERT INTO toolledger_events VALUES (4, 38, 1, 38, X'b2d41fea5ac899e8e41f65e9135c9747', 1767268812750000, 'message', 1, NULL, X'2ca56a94b3e40a32396a0f3e25dd0fbf', '{\"role\":\"assistant\",\"parts\":[{\"type\":\"text\",\"text\":\"Order 7 was refunded.\"}],\"turn\":11}');

INSERT INTO toolledger_events VALUES (4, 39, 1, 39, X'0625c6064147d7659886f7e0d100ed93', 1767268813000000, 'message', 1, NULL, X'55a746bcb1884d94d343c8a16191332b', '{\"role\":\"user\",\"parts\":[{\"type\":\"text\",\"text\":\"And a chart of it, and orders 8, 9, 10, 11?\"}]}');

INSERT INTO toolledger_events VALUES (4, 40, 1, 40, X'ae400a147766a70c7247766143c4261d', 1767268813250000, 'pending', 1, X'b725f05ee3790a34a35ab3fcfe278e5d', X'd30bda3eb7741595b862a9340993d513', '{\"call\":{\"name\":\"chart\",\"arguments\":{\"order\":7},\"id\":\"call_chart\"},\"provider_call_id\":\"call_chart\",\"turn\":12}');

INSERT INTO toolledger_events VALUES (4, 41, 1, 41, X'db6592c5ee6786f0258cd6c290c3f683', 1767268813500000, 'running', 1, X'b725f05ee3790a34a35ab3fcfe278e5d', X'f5a72b90d88547277f9d2a1995723dce', '{\"call_id\":\"call_chart\",\"attempt\":1,\"arguments\":{\"order\":7}}');

INSERT INTO toolledger_events VALUES (4, 42, 1, 42, X'cbd18eaa58469d1d6bbafdc88bfebedb', 1767268813750000, 'completed', 1, X'b725f05ee3790a34a35ab3fcfe278e5d', X'cea92cbbd477b4beb78f71ad8d77c66d', '{\"call_id\":\"call_chart\",\"response\":{\"name\":\"chart\",\"result\":[{\"type\":\"text\",\"text\":\"the chart\"},{\"type\":\"image\",\"data\":\"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==\",\"media_type\":\"image/png\"},{\"type\":\"document\",\"data\":\"JVBERi0xLjQKJSVFT0YK\"}],\"id\":\"call_chart\"},\"attempt\":1,\"in_parts\":true}');

INSERT INTO toolledger_events VALUES (4, 43, 1, 43, X'0a92053423f2012ecbf213b14a92409d', 1767268814000000, 'message', 1, NULL, X'b196ac6b7e670677508a694b684aa317', '{\"role\":\"assistant\",\"parts\":[{\"type\":\"text\",\"text\":\"Once more.\"}],\"turn\":13}');

INSERT INTO toolledger_events VALUES (4, 44, 1, 44, X'7cbf4ead15682998cfb6040f4799ed98', 1767268814250000, 'pending', 1, X'90541975263e14af82fd7c153ea2e1a0', X'2c60c1fb892522845a9b7af2a908f7f3', '{\"call\":{\"name\":\"find_order\",\"arguments\":{\"number\":8},\"id\":\"call_again_0\"},\"provider_call_id\":\"call_again_0\",\"turn\":13}');

INSERT INTO toolledger_events VALUES (4, 45, 1, 45, X'6c2a20870101b8ff4d41eb050ae18f00', 1767268814500000, 'running', 1, X'90541975263e14af82fd7c153ea2e1a0', X'b4fba690becd2cf3782e3d024e40d02d', '{\"call_id\":\"call_again_0\",\"attempt\":1,\"arguments\":{\"number\":8}}');

INSERT INTO toolledger_events VALUES (4, 46, 1, 46, X'd5689fdaf69bdbae2cd9fffc1cece2ac', 1767268814750000, 'failed', 1, X'90541975263e14af82fd7c153ea2e1a0', X'5bc57fe3ec527ee9d6ca1e5aafe5c2d6', '{\"call_id\":\"call_again_0\",\"failure\":{\"kind\":\"transient\",\"message\":\"no answer\"},\"attempt\":1}');

INSERT INTO toolledger_events VALUES (4, 47, 1, 47, X'2e59d96663a4a907e8fab91ecfde5aa0', 1767268815000000, 'message', 1, NULL, X'6faea18da3384fe916f6987341cb18e8', '{\"role\":\"assistant\",\"parts\":[{\"type\":\"text\",\"text\":\"Once more.\"}],\"turn\":14}');

INSERT INTO toolledger_events VALUES (4, 48, 1, 48, X'843630ca43f99f60b7482ddf2dd8fa49', 1767268815250000, 'pending', 1, X'90541975263e14af82fd7c153ea2e1a0', X'ff3d80e05df7163be649fef403d3c525', '{\"call\":{\"name\":\"find_order\",\"arguments\":{\"number\":8},\"id\":\"call_again_1\"},\"provider_call_id\":\"call_again_1\",\"turn\":14}');

INSERT INTO toolledger_events VALUES (4, 49, 1, 49, X'74e13ecb5ff399998273ae5ae2e6ccf6', 1767268815500000, 'running', 1, X'90541975263e14af82fd7c153ea2e1a0', X'95162dbff86ce035c4f004a0491046a3', '{\"call_id\":\"call_again_1\",\"attempt\":1,\"arguments\":{\"number\":8}}');

INSERT INTO toolledger_events VALUES (4, 50, 1, 50, X'9ac34af4d8b288e1e93fbbf20ff01855', 1767268815750000, 'failed', 1, X'90541975263e14af82fd7c153ea2e1a0', X'd346f58c848b2fd3efae6c9be22e6a23', '{\"call_id\":\"call_again_1\",\"failure\":{\"kind\":\"transient\",\"message\":\"no answer\"},\"attempt\":1}');

INSERT INTO toolledger_events VALUES (4, 51, 1, 51, X'0254d425b8a6b502fd5f0826b98d0690', 1767268816000000, 'message', 1, NULL, X'0d46321a6b3dccc4891405c7d8186304', '{\"role\":\"assistant\",\"parts\":[{\"type\":\"text\",\"text\":\"Once more.\"}],\"turn\":15}');

INSERT INTO toolledger_events VALUES (4, 52, 1, 52, X'146448b5d53cce7e233729a55f19302b', 1767268816250000, 'pending', 1, X'90541975263e14af82fd7c153ea2e1a0', X'5db21e7938c9ce2a8c7fe093bfe3aa83', '{\"call\":{\"name\":\"find_order\",\"arguments\":{\"number\":8},\"id\":\"call_again_2\"},\"provider_call_id\":\"call_again_2\",\"turn\":15}');

INSERT INTO toolledger_events VALUES (4, 53, 1, 53, X'263174b4eb04a86c5ed046c8064a4467', 1767268816500000, 'running', 1, X'90541975263e14af82fd7c153ea2e1a0', X'76303789291e123a9830c246adcd6126', '{\"call_id\":\"call_again_2\",\"attempt\":1,\"arguments\":{\"number\":8}}');

INSERT INTO toolledger_events VALUES (4, 54, 1, 54, X'ec0a1aecf618849d13aa053faca742a1', 1767268816750000, 'completed', 1, X'90541975263e14af82fd7c153ea2e1a0', X'1fb6e9a2a4554dca28971a519dbcf410', '{\"call_id\":\"call_again_2\",\"response\":{\"name\":\"find_order\",\"result\":null,\"id\":\"call_again_2\"},\"attempt\":1}');

INSERT INTO toolledger_events VALUES (4, 55, 1, 55, X'195687bf6c3946b33336bb6663da67e3', 1767268817000000, 'message', 1, NULL, X'a9e014b69818c2d9698ce6f7479b0ac4', '{\"role\":\"assistant\",\"parts\":[{\"type\":\"text\",\"text\":\"The others.\"}],\"turn\":16}');

INSERT INTO toolledger_events VALUES (4, 56, 1, 56, X'bdb965f19d6bb5e9231f1865591fb3a0', 1767268817250000, 'pending', 1, X'94db7f3443800829ec5c00fdd589e6a4', X'9b5549f59934bd50b0ca7180c483943b', '{\"call\":{\"name\":\"find_order\",\"arguments\":{\"number\":9},\"id\":\"call_pending\"},\"provider_call_id\":\"call_pending\",\"turn\":16}');

INSERT INTO toolledger_events VALUES (4, 57, 1, 57, X'e240e454b4fe60d58ac43d8a4b89908f', 1767268817500000, 'pending', 1, X'e792faca36fd3be396cef2d3220314e0', X'd29e891708a4955166cac2f2d99d27fb', '{\"call\":{\"name\":\"find_order\",\"arguments\":{\"number\":10},\"id\":\"call_approved\"},\"provider_call_id\":\"call_approved\",\"turn\":16,\"index\":1}');

INSERT INTO toolledger_events VALUES (4, 58, 1, 58, X'1ee57716b6bbba9f6b43a2a943f4f5a0', 1767268817750000, 'approved', 1, X'e792faca36fd3be396cef2d3220314e0', X'ba9f3de74e4ce0db1347e09a0244a590', '{\"call_id\":\"call_approved\"}');

INSERT INTO toolledger_events VALUES (4, 59, 1, 59, X'cfa919d2de4b20b47aee043b960fff4e', 1767268818000000, 'pending', 1, X'eb9d77e92d8cf59da6fcdd916c8601be', X'ad0a40cfbc800dc753c59c0d6527fc82', '{\"call\":{\"name\":\"find_order\",\"arguments\":{\"number\":11},\"id\":\"call_running\"},\"provider_call_id\":\"call_running\",\"turn\":17}');

INSERT INTO toolledger_events VALUES (4, 60, 1, 60, X'3b43948c38f5097162bd7fda7d70aec0', 1767268818250000, 'running', 1, X'eb9d77e92d8cf59da6fcdd916c8601be', X'39f1effe9df8b6ac0feb686ba8ff7b4f', '{\"call_id\":\"call_running\",\"attempt\":1,\"arguments\":{\"number\":11}}');

INSERT INTO toolledger_events VALUES (4, 61, 1, 61, X'45adc7e6e8e00a7e1b123ce8f7758fcc', 1767268818500000, 'run_ended', 1, NULL, X'c3359389badfec1f6256a1456a145623', '{\"reason\":\"error\",\"failure\":{\"kind\":\"auth\",\"message\":\"the key was revoked\"}}');

INSERT INTO toolledger_events VALUES (4, 62, 62, 1, X'fb441a3250cd89efaa86079200000000', 1767294018500000, 'message', 1, NULL, X'6841eb692ce53969830cee26bdf6636d', '{\"role\":\"developer\",\"parts\":[{\"type\":\"text\",\"text\":\"Be brief.\"}],\"provider\":\"openai-responses\",\"exact\":true}');

INSERT INTO toolledger_events VALUES (4, 63, 62, 2, X'1ea96b6971648761a17d8a8800000000', 1767294018500000, 'message', 1, NULL, X'00010c8d0d966ea3a9e642cd822557f5', '{\"role\":\"user\",\"parts\":[{\"type\":\"text\",\"text\":\"And the weather in Oslo and Rome?\"},{\"type\":\"opaque\",\"provider\":\"openai-responses\",\"data\":{\"type\":\"input_image\",\"image_url\":\"https://example.com/a.png\",\"detail\":\"low\"}},{\"type\":\"opaque\",\"provider\":\"openai-responses\",\"data\":{\"type\":\"input_file\",\"filename\":\"a.pdf\",\"file_data\":\"data:application/pdf;base64,JVBERi0xLjQKJSVFT0YK\"}}],\"provider\":\"openai-responses\",\"exact\":true}');

INSERT INTO toolledger_events VALUES (4, 64, 62, 3, X'4debbefd4bf188ed8f0187e900000000', 1767294018500000, 'message', 1, NULL, X'38262bff89bdb60fb7e4eeec52335849', '{\"role\":\"assistant\",\"parts\":[{\"type\":\"opaque\",\"provider\":\"openai-responses\",\"data\":{\"type\":\"reasoning\",\"id\":\"rs_1\",\"summary\":[],\"encrypted_content\":\"gAAAA\"}}],\"turn\":1,\"provider\":\"openai-responses\",\"native\":[{\"type\":\"reasoning\",\"id\":\"rs_1\",\"summary\":[],\"encrypted_content\":\"gAAAA\"}],\"exact\":true}');

INSERT INTO toolledger_events VALUES (4, 65, 62, 4, X'94cdd10b4aa9896aab224c3300000000', 1767294018500000, 'message', 1, NULL, X'5afeb37f9207ec9522eb5d5b92f28beb', '{\"role\":\"assistant\",\"parts\":[{\"type\":\"text\",\"text\":\"Let me look.\"}],\"turn\":1,\"provider\":\"openai-responses\",\"native\":[{\"type\":\"message\",\"id\":\"msg_1\",\"role\":\"assistant\",\"status\":\"completed\",\"content\":[{\"type\":\"output_text\",\"text\":\"Let me look.\",\"annotations\":[]}]}],\"exact\":true}');

INSERT INTO toolledger_events VALUES (4, 66, 62, 5, X'c9866f053cfe8c98aa0a464500000000', 1767294018500000, 'message', 1, NULL, X'7231572d85c7bf94cdb7ed4fcef92e3a', '{\"role\":\"assistant\",\"turn\":1,\"calls\":1,\"provider\":\"openai-responses\",\"native\":[{\"type\":\"function_call\",\"id\":\"fc_1\",\"call_id\":\"call_1\",\"name\":\"get_weather\",\"arguments\":\"{\\\"city\\\": \\\"Oslo\\\"}\",\"status\":\"completed\"}],\"exact\":true}');

INSERT INTO toolledger_events VALUES (4, 67, 62, 6, X'c9866f053cfe8c98aa0a464500000001', 1767294018500000, 'pending', 1, X'a7f8bd38fd6d8abd03d17cf6a8688b53', X'1cf1b544612fad3c7cbf52486f6e458e', '{\"call\":{\"name\":\"get_weather\",\"arguments\":{\"city\":\"Oslo\"},\"id\":\"call_1\"},\"provider_call_id\":\"call_1\",\"turn\":1,\"imported\":true}');

INSERT INTO toolledger_events VALUES (4, 68, 62, 7, X'd3f0c94aacd184b8b93155da00000000', 1767294018500000, 'message', 1, NULL, X'a73118056ce189f18ddbc6540afe4d6f', '{\"role\":\"assistant\",\"turn\":1,\"calls\":1,\"provider\":\"openai-responses\",\"native\":[{\"type\":\"function_call\",\"id\":\"fc_2\",\"call_id\":\"call_2\",\"name\":\"get_weather\",\"arguments\":\"{\\\"city\\\":\\\"Rome\\\"}\",\"status\":\"completed\"}],\"exact\":true}');

INSERT INTO toolledger_events VALUES (4, 69, 62, 8, X'd3f0c94aacd184b8b93155da00000001', 1767294018500000, 'pending', 1, X'75fb016e7934e94284e42e78648a1a38', X'905b9a89419a9669b8165b042eb39dd0', '{\"call\":{\"name\":\"get_weather\",\"arguments\":{\"city\":\"Rome\"},\"id\":\"call_2\"},\"provider_call_id\":\"call_2\",\"turn\":1,\"index\":1,\"imported\":true}');

INSERT INTO toolledger_events VALUES (4, 70, 62, 9, X'4ecbf91fa1c78edfa0232f0700000000', 1767294018500000, 'completed', 1, X'a7f8bd38fd6d8abd03d17cf6a8688b53', X'6a7f58ed74a2a110707ce1712d5ea24f', '{\"call_id\":\"call_1\",\"response\":{\"name\":\"get_weather\",\"result\":\"{\\\"error\\\": \\\"no such station\\\"}\",\"id\":\"call_1\"}}');

INSERT INTO toolledger_events VALUES (4, 71, 62, 10, X'237dd0285cf88b2584f6311500000000', 1767294018500000, 'completed', 1, X'75fb016e7934e94284e42e78648a1a38', X'841da17769da320d4b97b9e9f7f9d947', '{\"call_id\":\"call_2\",\"response\":{\"name\":\"get_weather\",\"result\":\"31 °C\",\"id\":\"call_2\"},\"provider\":\"openai-responses\",\"native\":{\"call_id\":\"call_2\",\"type\":\"function_call_output\",\"output\":[{\"type\":\"input_text\",\"text\":\"31 °C\"}]}}');

INSERT INTO toolledger_events VALUES (4, 72, 62, 11, X'5c24dcb778a287338855cd7600000000', 1767294018500000, 'message', 1, NULL, X'a4418fcae5638449ac3a4d33ffcb035a', '{\"role\":\"assistant\",\"parts\":[{\"type\":\"opaque\",\"provider\":\"openai-responses\",\"data\":{\"type\":\"web_search_call\",\"id\":\"ws_1\",\"status\":\"completed\"}}],\"turn\":2,\"provider\":\"openai-responses\",\"native\":[{\"type\":\"web_search_call\",\"id\":\"ws_1\",\"status\":\"completed\"}],\"exact\":true}');

INSERT INTO toolledger_events VALUES (4, 73, 62, 12, X'b99b48c9a3718da3b0c1835b00000000', 1767294018500000, 'message', 1, NULL, X'e8f3cf503c32d6e4d71cfb63aab701c6', '{\"role\":\"assistant\",\"parts\":[{\"type\":\"text\",\"text\":\"31 °C in Rome.\"}],\"turn\":2,\"provider\":\"openai-responses\",\"native\":[{\"type\":\"message\",\"id\":\"msg_2\",\"role\":\"assistant\",\"status\":\"completed\",\"content\":[{\"type\":\"output_text\",\"text\":\"31 °C in Rome.\",\"annotations\":[]}]}],\"exact\":true}');

INSERT INTO toolledger_events VALUES (5, 1, 1, 1, X'29060aed0eac845f92d1258e00000000', 1767286818500000, 'message', 1, NULL, X'453bd6780b8ad73c537b56accc92190a', '{\"role\":\"system\",\"parts\":[{\"type\":\"text\",\"text\":\"Be brief.\"}],\"provider\":\"ollama\",\"exact\":true}');

INSERT INTO toolledger_events VALUES (5, 2, 1, 2, X'bde4f090eac586aa81411be100000000', 1767286818500000, 'message', 1, NULL, X'5dee30acf338fe94f91c84454fdd65bf', '{\"role\":\"user\",\"parts\":[{\"type\":\"text\",\"text\":\"And the weather in Oslo and Rome?\"},{\"type\":\"image\",\"data\":\"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==\"}],\"provider\":\"ollama\",\"exact\":true}');

INSERT INTO toolledger_events VALUES (5, 3, 1, 3, X'809b0940feb586e29c4cc0b500000000', 1767286818500000, 'message', 1, NULL, X'3daaa68317b8a3b8de697aa6921b039d', '{\"role\":\"assistant\",\"parts\":[{\"type\":\"opaque\",\"provider\":\"ollama\",\"data\":{\"type\":\"thinking\",\"thinking\":\"Two cities.\"}},{\"type\":\"text\",\"text\":\"Let me look.\"}],\"turn\":1,\"calls\":2,\"provider\":\"ollama\",\"native\":{\"role\":\"assistant\",\"content\":\"Let me look.\",\"thinking\":\"Two cities.\",\"tool_calls\":[{\"function\":{\"name\":\"get_weather\",\"arguments\":{\"city\":\"Oslo\"}}},{\"function\":{\"index\":1,\"name\":\"get_weather\",\"arguments\":{\"city\":\"Rome\"}}}]},\"exact\":true}');

INSERT INTO toolledger_events VALUES (5, 4, 1, 4, X'809b0940feb586e29c4cc0b500000001', 1767286818500000, 'pending', 1, X'a7f8bd38fd6d8abd03d17cf6a8688b53', X'7753c8da355519a646c8c3aeaaa16c33', '{\"call\":{\"name\":\"get_weather\",\"arguments\":{\"city\":\"Oslo\"},\"id\":\"call_cb963733640d1e8100010000\"},\"turn\":1,\"imported\":true}');

INSERT INTO toolledger_events VALUES (5, 5, 1, 5, X'809b0940feb586e29c4cc0b500000002', 1767286818500000, 'pending', 1, X'75fb016e7934e94284e42e78648a1a38', X'e79fa51820049a3c07ee6d6e2a2364eb', '{\"call\":{\"name\":\"get_weather\",\"arguments\":{\"city\":\"Rome\"},\"id\":\"call_cb963733640d1e8100010001\"},\"turn\":1,\"index\":1,\"imported\":true}');

INSERT INTO toolledger_events VALUES (5, 6, 1, 6, X'd996f2185a0a8d37a7a352b900000000', 1767286818500000, 'completed', 1, X'a7f8bd38fd6d8abd03d17cf6a8688b53', X'065d873fb91b36b98429caddd9ab7127', '{\"call_id\":\"call_cb963733640d1e8100010000\",\"response\":{\"name\":\"get_weather\",\"result\":\"{\\\"error\\\": \\\"no such station\\\"}\",\"id\":\"call_cb963733640d1e8100010000\"},\"provider\":\"ollama\",\"native\":{\"role\":\"tool\",\"tool_name\":\"get_weather\",\"content\":\"{\\\"error\\\": \\\"no such station\\\"}\"}}');

INSERT INTO toolledger_events VALUES (5, 7, 1, 7, X'ab5823a5ff5b8dcf91d4304100000000', 1767286818500000, 'completed', 1, X'75fb016e7934e94284e42e78648a1a38', X'7719fa2c9deb19f14296eb39d77b739a', '{\"call_id\":\"call_cb963733640d1e8100010001\",\"response\":{\"name\":\"get_weather\",\"result\":\"31 °C\",\"id\":\"call_cb963733640d1e8100010001\"},\"provider\":\"ollama\",\"native\":{\"role\":\"tool\",\"tool_name\":\"get_weather\",\"content\":\"31 °C\"}}');

INSERT INTO toolledger_events VALUES (5, 8, 1, 8, X'ed4cb9063b158c778a1ac3c300000000', 1767286818500000, 'message', 1, NULL, X'fcfb098d78c132c00d5267c425e84b5f', '{\"role\":\"assistant\",\"parts\":[{\"type\":\"text\",\"text\":\"31 °C in Rome.\"}],\"turn\":2,\"provider\":\"ollama\",\"exact\":true}');

INSERT INTO toolledger_events VALUES (6, 1, 1, 1, X'b89552accb8e8ab88aa1288900000000', 1767272418500000, 'message', 1, NULL, X'1e63f65c54044b81daed03f27d6aa8e8', '{\"role\":\"user\",\"parts\":[{\"type\":\"text\",\"text\":\"What is in these, and the weather in Oslo and Rome?\"},{\"type\":\"opaque\",\"provider\":\"anthropic\",\"data\":{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"media_type\":\"image/png\",\"data\":\"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==\"},\"cache_control\":{\"type\":\"ephemeral\"}}},{\"type\":\"opaque\",\"provider\":\"anthropic\",\"data\":{\"type\":\"document\",\"source\":{\"type\":\"base64\",\"media_type\":\"application/pdf\",\"data\":\"JVBERi0xLjQKJSVFT0YK\"},\"title\":\"a.pdf\"}}],\"provider\":\"anthropic\",\"exact\":true}');

INSERT INTO toolledger_events VALUES (6, 2, 1, 2, X'eb47f3459bc98977a85b6f8b00000000', 1767272418500000, 'message', 1, NULL, X'5a60ab702fbab2e802f6010d5c2a531d', '{\"role\":\"assistant\",\"parts\":[{\"type\":\"opaque\",\"provider\":\"anthropic\",\"data\":{\"type\":\"thinking\",\"thinking\":\"Two cities.\",\"signature\":\"c2lnbmVk\"}},{\"type\":\"text\",\"text\":\"A pixel. Let me look.\"}],\"turn\":1,\"calls\":2,\"provider\":\"anthropic\",\"native\":{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"thinking\":\"Two cities.\",\"signature\":\"c2lnbmVk\"},{\"type\":\"text\",\"text\":\"A pixel. Let me look.\"},{\"type\":\"tool_use\",\"id\":\"toolu_1\",\"name\":\"get_weather\",\"input\":{\"city\":\"Oslo\",\"days\":1}},{\"type\":\"tool_use\",\"id\":\"toolu_2\",\"name\":\"get_weather\",\"input\":{\"city\":\"Rome\"}}]},\"exact\":true}');

INSERT INTO toolledger_events VALUES (6, 3, 1, 3, X'eb47f3459bc98977a85b6f8b00000001', 1767272418500000, 'pending', 1, X'6112b7210272391c2622ac6e22c0bd7b', X'47242b8f365ee56fc9635e8dc93d5c77', '{\"call\":{\"name\":\"get_weather\",\"arguments\":{\"city\":\"Oslo\",\"days\":1},\"id\":\"toolu_1\"},\"provider_call_id\":\"toolu_1\",\"turn\":1,\"imported\":true}');

INSERT INTO toolledger_events VALUES (6, 4, 1, 4, X'eb47f3459bc98977a85b6f8b00000002', 1767272418500000, 'pending', 1, X'75fb016e7934e94284e42e78648a1a38', X'0727606df67d29f21caae201a139f269', '{\"call\":{\"name\":\"get_weather\",\"arguments\":{\"city\":\"Rome\"},\"id\":\"toolu_2\"},\"provider_call_id\":\"toolu_2\",\"turn\":1,\"index\":1,\"imported\":true}');

INSERT INTO toolledger_events VALUES (6, 5, 1, 5, X'd0ca9360b5be8b0f81fbaf3100000000', 1767272418500000, 'completed', 1, X'75fb016e7934e94284e42e78648a1a38', X'0966f6b7361c70fc8695d6026862ee82', '{\"call_id\":\"toolu_2\",\"response\":{\"name\":\"get_weather\",\"result\":\"31 °C\",\"id\":\"toolu_2\"},\"provider\":\"anthropic\",\"native\":{\"type\":\"tool_result\",\"tool_use_id\":\"toolu_2\",\"content\":[{\"type\":\"text\",\"text\":\"31 °C\"}]}}');

INSERT INTO toolledger_events VALUES (6, 6, 1, 6, X'd0ca9360b5be8b0f81fbaf3100000001', 1767272418500000, 'failed', 1, X'6112b7210272391c2622ac6e22c0bd7b', X'ab3100a0bd9318a1b1ad5cca51a82c4b', '{\"call_id\":\"toolu_1\",\"failure\":{\"kind\":\"internal\",\"message\":\"no such station\"},\"provider\":\"anthropic\",\"native\":{\"is_error\":true,\"content\":\"no such station\",\"tool_use_id\":\"toolu_1\",\"type\":\"tool_result\"}}');

INSERT INTO toolledger_events VALUES (6, 7, 1, 7, X'd0ca9360b5be8b0f81fbaf3100000002', 1767272418500000, 'message', 1, NULL, X'c1add4212f3b20691509daeaed79e011', '{\"role\":\"user\",\"parts\":[{\"type\":\"text\",\"text\":\"Hurry.\"}],\"provider\":\"anthropic\",\"native\":{\"content\":[null,null,{\"type\":\"text\",\"text\":\"Hurry.\"}],\"role\":\"user\"},\"exact\":true,\"joined\":true,\"results\":[\"toolu_2\",\"toolu_1\"]}');

INSERT INTO toolledger_events VALUES (6, 8, 1, 8, X'c7b216e109af8f71b3e3ba3a00000000', 1767272418500000, 'message', 1, NULL, X'487fc7e622aabab228c8b6ad644fd1e3', '{\"role\":\"assistant\",\"parts\":[{\"type\":\"text\",\"text\":\"31 °C in Rome; Oslo has no station.\"}],\"turn\":2,\"provider\":\"anthropic\",\"native\":{\"role\":\"assistant\",\"content\":\"31 °C in Rome; Oslo has no station.\"},\"exact\":true}');

INSERT INTO toolledger_events VALUES (7, 1, 1, 1, X'fb441a3250cd89efaa86079200000000', 1767290418500000, 'message', 1, NULL, X'58380e66a4fe5d8638e2019508228011', '{\"role\":\"developer\",\"parts\":[{\"type\":\"text\",\"text\":\"Be brief.\"}],\"provider\":\"openai\",\"exact\":true}');

INSERT INTO toolledger_events VALUES (7, 2, 1, 2, X'a26cc1e9c31b8d599217128b00000000', 1767290418500000, 'message', 1, NULL, X'f8e5064431216833d47936c3451677ad', '{\"role\":\"user\",\"parts\":[{\"type\":\"text\",\"text\":\"And the weather in Oslo and Rome?\"},{\"type\":\"opaque\",\"provider\":\"openai\",\"data\":{\"type\":\"image_url\",\"image_url\":{\"detail\":\"high\",\"url\":\"data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==\"}}},{\"type\":\"opaque\",\"provider\":\"openai\",\"data\":{\"type\":\"file\",\"file\":{\"filename\":\"a.pdf\",\"file_data\":\"data:application/pdf;base64,JVBERi0xLjQKJSVFT0YK\"}}}],\"provider\":\"openai\",\"native\":{\"role\":\"user\",\"name\":\"ada\",\"content\":[{\"type\":\"text\",\"text\":\"And the weather in Oslo and Rome?\"},{\"type\":\"image_url\",\"image_url\":{\"detail\":\"high\",\"url\":\"data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==\"}},{\"type\":\"file\",\"file\":{\"filename\":\"a.pdf\",\"file_data\":\"data:application/pdf;base64,JVBERi0xLjQKJSVFT0YK\"}}]},\"exact\":true}');

INSERT INTO toolledger_events VALUES (7, 3, 1, 3, X'3095e48f69aa8840887f1aa500000000', 1767290418500000, 'message', 1, NULL, X'15c8e2c521ab32fbbf301906a4e04ca4', '{\"role\":\"assistant\",\"turn\":1,\"calls\":2,\"provider\":\"openai\",\"native\":{\"refusal\":null,\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"call_1\",\"type\":\"function\",\"function\":{\"arguments\":\"{\\\"city\\\": \\\"Oslo\\\"}\",\"name\":\"get_weather\"}},{\"id\":\"call_2\",\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"arguments\":\"{\\\"city\\\": cut off\"}}]}}');

INSERT INTO toolledger_events VALUES (7, 4, 1, 4, X'3095e48f69aa8840887f1aa500000001', 1767290418500000, 'pending', 1, X'a7f8bd38fd6d8abd03d17cf6a8688b53', X'1cf1b544612fad3c7cbf52486f6e458e', '{\"call\":{\"name\":\"get_weather\",\"arguments\":{\"city\":\"Oslo\"},\"id\":\"call_1\"},\"provider_call_id\":\"call_1\",\"turn\":1,\"imported\":true}');

INSERT INTO toolledger_events VALUES (7, 5, 1, 5, X'3095e48f69aa8840887f1aa500000002', 1767290418500000, 'pending', 1, X'c598a6deec9f876d9e71c5bc2d5d5b45', X'2672619a710c08eb58fe47c5129bb300', '{\"call\":{\"name\":\"get_weather\",\"arguments\":null,\"id\":\"call_2\",\"raw\":\"{\\\"city\\\": cut off\"},\"provider_call_id\":\"call_2\",\"turn\":1,\"index\":1,\"imported\":true}');

INSERT INTO toolledger_events VALUES (7, 6, 1, 6, X'f6cfa31fdf488d8e8c8f136100000000', 1767290418500000, 'completed', 1, X'a7f8bd38fd6d8abd03d17cf6a8688b53', X'd18e607cf7790f5f11110d82236e3dec', '{\"call_id\":\"call_1\",\"response\":{\"name\":\"get_weather\",\"result\":\"31 °C\",\"id\":\"call_1\"}}');

INSERT INTO toolledger_events VALUES (7, 7, 1, 7, X'1499b083a9c587018277ea9e00000000', 1767290418500000, 'completed', 1, X'c598a6deec9f876d9e71c5bc2d5d5b45', X'3c1973ec764713b2a4c00bee6462713d', '{\"call_id\":\"call_2\",\"response\":{\"name\":\"get_weather\",\"result\":\"{\\\"error\\\": \\\"no such station\\\"}\",\"id\":\"call_2\"}}');

INSERT INTO toolledger_events VALUES (7, 8, 1, 8, X'b807471d1aaf8999a8e1fad800000000', 1767290418500000, 'message', 1, NULL, X'490a1647732d245305122afe87cce113', '{\"role\":\"assistant\",\"parts\":[{\"type\":\"text\",\"text\":\"31 °C in Rome.\"}],\"turn\":2,\"provider\":\"openai\",\"native\":{\"role\":\"assistant\",\"content\":\"31 °C in Rome.\",\"annotations\":[]},\"exact\":true}');

INSERT INTO toolledger_events VALUES (12, 1, 1, 1, X'a0b70c3464418377846fa24300000000', 1767283218500000, 'message', 1, NULL, X'a5f43ffdbcb00cbad345d07514116a00', '{\"role\":\"system\",\"parts\":[{\"type\":\"text\",\"text\":\"Be brief.\"}],\"provider\":\"mistral\",\"native\":{\"role\":\"system\",\"content\":[{\"type\":\"text\",\"text\":\"Be brief.\"}]},\"exact\":true}');

INSERT INTO toolledger_events VALUES (12, 2, 1, 2, X'1cb1bfc4c47089f387c80f6400000000', 1767283218500000, 'message', 1, NULL, X'efa0f053dc20d35c9e4d120215a34ef8', '{\"role\":\"user\",\"parts\":[{\"type\":\"text\",\"text\":\"And the weather in Oslo and Rome?\"},{\"type\":\"image\",\"url\":\"https://example.com/a.png\"},{\"type\":\"opaque\",\"provider\":\"mistral\",\"data\":{\"type\":\"document_url\",\"document_url\":\"https://example.com/a.pdf\",\"document_name\":\"a.pdf\"}}],\"provider\":\"mistral\",\"native\":{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"And the weather in Oslo and Rome?\"},{\"type\":\"image_url\",\"image_url\":\"https://example.com/a.png\"},{\"type\":\"document_url\",\"document_url\":\"https://example.com/a.pdf\",\"document_name\":\"a.pdf\"}]},\"exact\":true}');

INSERT INTO toolledger_events VALUES (12, 3, 1, 3, X'fa52fb7c343e82b19684c29700000000', 1767283218500000, 'message', 1, NULL, X'0a1d84ef39c9af5e3600149f95bd0b2e', '{\"role\":\"assistant\",\"parts\":[{\"type\":\"opaque\",\"provider\":\"mistral\",\"data\":{\"type\":\"thinking\",\"thinking\":[{\"type\":\"text\",\"text\":\"Two cities.\"}]}},{\"type\":\"text\",\"text\":\"Let me look.\"}],\"turn\":1,\"calls\":2,\"provider\":\"mistral\",\"native\":{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"thinking\":[{\"type\":\"text\",\"text\":\"Two cities.\"}]},{\"type\":\"text\",\"text\":\"Let me look.\"}],\"tool_calls\":[{\"id\":\"abcDEF123\",\"function\":{\"name\":\"get_weather\",\"arguments\":\"{\\\"city\\\": \\\"Oslo\\\"}\"}},{\"id\":\"abcDEF124\",\"function\":{\"name\":\"get_weather\",\"arguments\":{\"city\":\"Rome\"}}}]},\"exact\":true}');

INSERT INTO toolledger_events VALUES (12, 4, 1, 4, X'fa52fb7c343e82b19684c29700000001', 1767283218500000, 'pending', 1, X'a7f8bd38fd6d8abd03d17cf6a8688b53', X'ab12633acb7b83eeeadefeed96a5dba3', '{\"call\":{\"name\":\"get_weather\",\"arguments\":{\"city\":\"Oslo\"},\"id\":\"abcDEF123\"},\"provider_call_id\":\"abcDEF123\",\"turn\":1,\"imported\":true}');

INSERT INTO toolledger_events VALUES (12, 5, 1, 5, X'fa52fb7c343e82b19684c29700000002', 1767283218500000, 'pending', 1, X'75fb016e7934e94284e42e78648a1a38', X'80c11fa2abe8745a85a8ac8a6c13c06b', '{\"call\":{\"name\":\"get_weather\",\"arguments\":{\"city\":\"Rome\"},\"id\":\"abcDEF124\"},\"provider_call_id\":\"abcDEF124\",\"turn\":1,\"index\":1,\"imported\":true}');

INSERT INTO toolledger_events VALUES (12, 6, 1, 6, X'21c9711f7da3891393210ea200000000', 1767283218500000, 'completed', 1, X'a7f8bd38fd6d8abd03d17cf6a8688b53', X'b3ab61e0320bb0c23c3ed72ea54ea64f', '{\"call_id\":\"abcDEF123\",\"response\":{\"name\":\"get_weather\",\"result\":\"{\\\"error\\\": \\\"no such station\\\"}\",\"id\":\"abcDEF123\"},\"provider\":\"mistral\",\"native\":{\"role\":\"tool\",\"tool_call_id\":\"abcDEF123\",\"content\":\"{\\\"error\\\": \\\"no such station\\\"}\",\"name\":\"get_weather\"}}');

INSERT INTO toolledger_events VALUES (12, 7, 1, 7, X'425e00c6eda48a9eb676f6ff00000000', 1767283218500000, 'completed', 1, X'75fb016e7934e94284e42e78648a1a38', X'fd47193e035997a82f1b54dd83cee1e1', '{\"call_id\":\"abcDEF124\",\"response\":{\"name\":\"get_weather\",\"result\":\"31 °C\",\"id\":\"abcDEF124\"},\"provider\":\"mistral\",\"native\":{\"role\":\"tool\",\"tool_call_id\":\"abcDEF124\",\"content\":[{\"type\":\"text\",\"text\":\"31 °C\"}]}}');

INSERT INTO toolledger_events VALUES (12, 8, 1, 8, X'47951c9b195689d18af598bf00000000', 1767283218500000, 'message', 1, NULL, X'659c45e66fa2ed117af9f1633f1e70ae', '{\"role\":\"assistant\",\"parts\":[{\"type\":\"text\",\"text\":\"31 °C in Rome.\"}],\"turn\":2,\"provider\":\"mistral\",\"native\":{\"role\":\"assistant\",\"content\":\"31 °C in Rome.\",\"prefix\":false},\"exact\":true}');

INSERT INTO toolledger_events VALUES (13, 1, 1, 1, X'ba5ce5c32e044654282779e4707dbf00', 1767294020750000, 'run_started', 1, NULL, X'79188a712142c9c90076f0d07ae678ee', '{\"agent\":\"support\"}');

INSERT INTO toolledger_events VALUES (13, 2, 1, 2, X'b67caefa968169574128777039389dff', 1767294021000000, 'message', 1, NULL, X'832ec11ef7f4da64417a86fb6f273fde', '{\"role\":\"system\",\"parts\":[{\"type\":\"text\",\"text\":\"Be brief.\"}]}');

INSERT INTO toolledger_events VALUES (13, 3, 1, 3, X'1be9af79374a2965f83d6cb276ffa760', 1767294021250000, 'message', 1, NULL, X'47c81a4e7e739bccc70902ceac6ea405', '{\"role\":\"user\",\"parts\":[{\"type\":\"text\",\"text\":\"Where is order 7?\"},{\"type\":\"image\",\"data\":\"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==\",\"media_type\":\"image/png\"}]}');

INSERT INTO toolledger_events VALUES (13, 4, 1, 4, X'73b09be2ab5bd10d44a8ab95eb2141a4', 1767294021500000, 'message', 99, NULL, X'fbb27436323b52479d9fd6a48e36aa28', '{\"role\":\"user\",\"said\":\"later\"}');

INSERT INTO toolledger_events VALUES (13, 5, 1, 5, X'6a8666406ce236f1c888b264397b20c6', 1767294021750000, 'tools_offered', 1, NULL, X'cf159ae0ed5bac84c139066400f0d667', '{\"iteration\":0,\"available\":[\"find_order\",\"refund\",\"drop\"],\"allowed\":[\"find_order\"],\"gates\":[{\"gate\":\"budget\",\"allow\":[\"find_order\",\"refund\"]},{\"gate\":\"quiet\"}]}');

INSERT INTO toolledger_events VALUES (13, 6, 1, 6, X'50f3c7e9b23227b3cb31d35aa5e1c961', 1767294022000000, 'message', 1, NULL, X'69687104f9472fb95930964e1a72fd1b', '{\"role\":\"assistant\",\"parts\":[{\"type\":\"text\",\"text\":\"I look it up.\"}],\"turn\":1}');

CREATE TABLE `toolledger_fingerprints` (
  `lane` int(11) NOT NULL,
  `fingerprint` binary(16) NOT NULL,
  `conversation` bigint(20) NOT NULL,
  `version` int(11) NOT NULL,
  PRIMARY KEY (`lane`,`fingerprint`,`conversation`,`version`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;

INSERT INTO toolledger_fingerprints VALUES (2, X'28d398749132dc0d81de9de538e00000', 1, 6);

INSERT INTO toolledger_fingerprints VALUES (2, X'c9e0f2f9b5968bcc3474086feaade600', 1, 7);

INSERT INTO toolledger_fingerprints VALUES (3, X'14d8414959de21ac74f20d38f10fd2ae', 1, 5);

INSERT INTO toolledger_fingerprints VALUES (3, X'30d3d89d639562f921fc63df4c90f4d3', 1, 10);

INSERT INTO toolledger_fingerprints VALUES (3, X'31eaf52155aecfa0acb45e21dbdbed83', 1, 4);

INSERT INTO toolledger_fingerprints VALUES (3, X'75fb016e7934e94284e42e78648a1a38', 14, 4);

INSERT INTO toolledger_fingerprints VALUES (3, X'75fb016e7934e94284e42e78648a1a38', 21, 4);

INSERT INTO toolledger_fingerprints VALUES (3, X'a7f8bd38fd6d8abd03d17cf6a8688b53', 14, 3);

INSERT INTO toolledger_fingerprints VALUES (3, X'a7f8bd38fd6d8abd03d17cf6a8688b53', 21, 3);

INSERT INTO toolledger_fingerprints VALUES (4, X'0bc5fe2d6b262f0b3295c736c942020a', 1, 32);

INSERT INTO toolledger_fingerprints VALUES (4, X'0d39c040303e03e4d92cf36812e47fba', 1, 24);

INSERT INTO toolledger_fingerprints VALUES (4, X'1bd4e0cb2f9a397314535b58c67a90de', 1, 35);

INSERT INTO toolledger_fingerprints VALUES (4, X'255e3123ef625277105ff7c3d6c2bdd1', 1, 20);

INSERT INTO toolledger_fingerprints VALUES (4, X'28d398749132dc0d81de9de538e00000', 1, 6);

INSERT INTO toolledger_fingerprints VALUES (4, X'5c3208ab5ce9bb37081139769c5b149e', 1, 34);

INSERT INTO toolledger_fingerprints VALUES (4, X'75fb016e7934e94284e42e78648a1a38', 62, 8);

INSERT INTO toolledger_fingerprints VALUES (4, X'90541975263e14af82fd7c153ea2e1a0', 1, 44);

INSERT INTO toolledger_fingerprints VALUES (4, X'90541975263e14af82fd7c153ea2e1a0', 1, 48);

INSERT INTO toolledger_fingerprints VALUES (4, X'90541975263e14af82fd7c153ea2e1a0', 1, 52);

INSERT INTO toolledger_fingerprints VALUES (4, X'94db7f3443800829ec5c00fdd589e6a4', 1, 56);

INSERT INTO toolledger_fingerprints VALUES (4, X'a7f8bd38fd6d8abd03d17cf6a8688b53', 62, 6);

INSERT INTO toolledger_fingerprints VALUES (4, X'b725f05ee3790a34a35ab3fcfe278e5d', 1, 40);

INSERT INTO toolledger_fingerprints VALUES (4, X'bca7fddb77deb3962e09a87792d2350f', 1, 26);

INSERT INTO toolledger_fingerprints VALUES (4, X'c8f5484a5d00298c10b39023c8a632eb', 1, 16);

INSERT INTO toolledger_fingerprints VALUES (4, X'c9e0f2f9b5968bcc3474086feaade600', 1, 7);

INSERT INTO toolledger_fingerprints VALUES (4, X'cc685281af3af5eadec269b6c655486d', 1, 18);

INSERT INTO toolledger_fingerprints VALUES (4, X'cead762695e7305bebbd55ad91c0e112', 1, 28);

INSERT INTO toolledger_fingerprints VALUES (4, X'e5df7019bfb890082ecc464defd2c3f5', 1, 22);

INSERT INTO toolledger_fingerprints VALUES (4, X'e792faca36fd3be396cef2d3220314e0', 1, 57);

INSERT INTO toolledger_fingerprints VALUES (4, X'eb9d77e92d8cf59da6fcdd916c8601be', 1, 59);

INSERT INTO toolledger_fingerprints VALUES (4, X'f6add1edc7c6034df0e882bda5ff2ed4', 1, 29);

INSERT INTO toolledger_fingerprints VALUES (5, X'75fb016e7934e94284e42e78648a1a38', 1, 5);

INSERT INTO toolledger_fingerprints VALUES (5, X'a7f8bd38fd6d8abd03d17cf6a8688b53', 1, 4);

INSERT INTO toolledger_fingerprints VALUES (6, X'6112b7210272391c2622ac6e22c0bd7b', 1, 3);

INSERT INTO toolledger_fingerprints VALUES (6, X'75fb016e7934e94284e42e78648a1a38', 1, 4);

INSERT INTO toolledger_fingerprints VALUES (7, X'a7f8bd38fd6d8abd03d17cf6a8688b53', 1, 4);

INSERT INTO toolledger_fingerprints VALUES (7, X'c598a6deec9f876d9e71c5bc2d5d5b45', 1, 5);

INSERT INTO toolledger_fingerprints VALUES (12, X'75fb016e7934e94284e42e78648a1a38', 1, 5);

INSERT INTO toolledger_fingerprints VALUES (12, X'a7f8bd38fd6d8abd03d17cf6a8688b53', 1, 4);

CREATE TABLE `toolledger_kind_statistics` (
  `projection` bigint(20) NOT NULL,
  `lane` int(11) NOT NULL,
  `starts_at` bigint(20) NOT NULL,
  `kind` varchar(32) NOT NULL,
  `failures` bigint(20) NOT NULL,
  `retried` bigint(20) NOT NULL,
  `recovered` bigint(20) NOT NULL,
  `terminal` bigint(20) NOT NULL,
  `body` longtext NOT NULL,
  PRIMARY KEY (`projection`,`lane`,`starts_at`,`kind`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO toolledger_kind_statistics VALUES (1, 3, 1767268800000000, 'rate_limit', 1, 1, 1, 0, '{\"retried\":1,\"recovered\":1,\"terminal\":0,\"tools\":{\"search\":1}}');

INSERT INTO toolledger_kind_statistics VALUES (1, 3, 1767276000000000, 'internal', 1, 0, 0, 1, '{\"retried\":0,\"recovered\":0,\"terminal\":1,\"tools\":{\"get_weather\":1}}');

INSERT INTO toolledger_kind_statistics VALUES (1, 3, 1767279600000000, 'internal', 1, 0, 0, 1, '{\"retried\":0,\"recovered\":0,\"terminal\":1,\"tools\":{\"get_weather\":1}}');

INSERT INTO toolledger_kind_statistics VALUES (1, 4, 1767268800000000, 'rate_limit', 1, 1, 0, 0, '{\"retried\":1,\"recovered\":0,\"terminal\":0,\"tools\":{\"find_order\":1}}');

INSERT INTO toolledger_kind_statistics VALUES (1, 4, 1767268800000000, 'transient', 3, 1, 1, 2, '{\"retried\":1,\"recovered\":1,\"terminal\":2,\"tools\":{\"find_order\":3}}');

INSERT INTO toolledger_kind_statistics VALUES (1, 4, 1767268800000000, 'validation', 1, 0, 0, 1, '{\"retried\":0,\"recovered\":0,\"terminal\":1,\"tools\":{\"find_order\":1}}');

INSERT INTO toolledger_kind_statistics VALUES (1, 6, 1767272400000000, 'internal', 1, 0, 0, 1, '{\"retried\":0,\"recovered\":0,\"terminal\":1,\"tools\":{\"get_weather\":1}}');

CREATE TABLE `toolledger_lanes` (
  `lane` int(11) NOT NULL,
  `position` bigint(20) NOT NULL,
  PRIMARY KEY (`lane`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;

INSERT INTO toolledger_lanes VALUES (0, 0);

INSERT INTO toolledger_lanes VALUES (1, 0);

INSERT INTO toolledger_lanes VALUES (2, 8);

INSERT INTO toolledger_lanes VALUES (3, 28);

INSERT INTO toolledger_lanes VALUES (4, 73);

INSERT INTO toolledger_lanes VALUES (5, 8);

INSERT INTO toolledger_lanes VALUES (6, 8);

INSERT INTO toolledger_lanes VALUES (7, 8);

INSERT INTO toolledger_lanes VALUES (8, 0);

INSERT INTO toolledger_lanes VALUES (9, 0);

INSERT INTO toolledger_lanes VALUES (10, 0);

INSERT INTO toolledger_lanes VALUES (11, 0);

INSERT INTO toolledger_lanes VALUES (12, 8);

INSERT INTO toolledger_lanes VALUES (13, 6);

INSERT INTO toolledger_lanes VALUES (14, 0);

INSERT INTO toolledger_lanes VALUES (15, 0);

CREATE TABLE `toolledger_open_calls` (
  `projection` bigint(20) NOT NULL,
  `lane` int(11) NOT NULL,
  `key` binary(16) NOT NULL,
  `body` longtext NOT NULL,
  PRIMARY KEY (`projection`,`lane`,`key`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO toolledger_open_calls VALUES (1, 3, X'2377c813ce8058765cbc9db8791e13df', '{\"starts_at\":1767276000000000,\"id\":\"tooluse_1\",\"asked\":{\"name\":\"get_weather\",\"arguments\":null},\"since\":1767276018500000,\"status\":\"Failed\",\"kind\":\"internal\",\"mishap\":true,\"mark\":\"x1:a7f8bd38fd6d8abd03d17cf6a8688b53\"}');

INSERT INTO toolledger_open_calls VALUES (1, 3, X'59ded340e2760797268ef0239a883547', '{\"starts_at\":1767279600000000,\"id\":\"call_cb740bf6b94bda4700010000\",\"asked\":{\"name\":\"get_weather\",\"arguments\":null},\"since\":1767279618500000,\"status\":\"Failed\",\"kind\":\"internal\",\"mishap\":true,\"mark\":\"x1:a7f8bd38fd6d8abd03d17cf6a8688b53\"}');

INSERT INTO toolledger_open_calls VALUES (1, 4, X'0ac898043e85b516b104bf1d996f4cba', '{\"starts_at\":1767268800000000,\"id\":\"call_again_1\",\"asked\":{\"name\":\"find_order\",\"arguments\":null},\"since\":1767268815500000,\"status\":\"Failed\",\"attempts\":1,\"kind\":\"transient\",\"mishap\":true,\"mark\":\"x1:90541975263e14af82fd7c153ea2e1a0\"}');

INSERT INTO toolledger_open_calls VALUES (1, 4, X'1a87160f1bf6689d0af8d46e54c0f9fe', '{\"starts_at\":1767268800000000,\"id\":\"call_running\",\"asked\":{\"name\":\"find_order\",\"arguments\":{\"number\":11},\"id\":\"call_running\"},\"since\":1767268818250000,\"status\":\"Running\",\"attempts\":1,\"mark\":\"x1:eb9d77e92d8cf59da6fcdd916c8601be\"}');

INSERT INTO toolledger_open_calls VALUES (1, 4, X'532c7e12df718b49eb99e013c13c3c10', '{\"starts_at\":1767268800000000,\"id\":\"call_pending\",\"asked\":{\"name\":\"find_order\",\"arguments\":{\"number\":9},\"id\":\"call_pending\"},\"since\":1767268817250000,\"status\":\"Pending\",\"mark\":\"x1:94db7f3443800829ec5c00fdd589e6a4\"}');

INSERT INTO toolledger_open_calls VALUES (1, 4, X'7cd4cd4937b100c684f33549937d7fd2', '{\"starts_at\":1767268800000000,\"id\":\"call_cut\",\"asked\":{\"name\":\"find_order\",\"arguments\":null},\"since\":1767268805000000,\"status\":\"Failed\",\"kind\":\"validation\",\"mishap\":true,\"mark\":\"x1:c9e0f2f9b5968bcc3474086feaade600\"}');

INSERT INTO toolledger_open_calls VALUES (1, 4, X'aa5ce2b8d208e1095d46eeb37f3a20ec', '{\"starts_at\":1767268800000000,\"id\":\"call_approved\",\"asked\":{\"name\":\"find_order\",\"arguments\":{\"number\":10},\"id\":\"call_approved\"},\"since\":1767268817750000,\"status\":\"Approved\",\"mark\":\"x1:e792faca36fd3be396cef2d3220314e0\"}');

INSERT INTO toolledger_open_calls VALUES (1, 4, X'd2a46febf95c2ed14982a5b8c9ddbfa7', '{\"starts_at\":1767268800000000,\"id\":\"call_list\",\"asked\":{\"name\":\"refund\",\"arguments\":[1,2],\"id\":\"call_list\",\"raw\":\"[1,2]\"},\"since\":1767268811750000,\"status\":\"Pending\",\"mark\":\"x1:5c3208ab5ce9bb37081139769c5b149e\"}');

INSERT INTO toolledger_open_calls VALUES (1, 4, X'e75ed1ec41dded4a57ce4f3ac989f5d0', '{\"starts_at\":1767268800000000,\"id\":\"call_again_0\",\"asked\":{\"name\":\"find_order\",\"arguments\":null},\"since\":1767268814500000,\"status\":\"Failed\",\"attempts\":1,\"kind\":\"transient\",\"mishap\":true,\"mark\":\"x1:90541975263e14af82fd7c153ea2e1a0\"}');

INSERT INTO toolledger_open_calls VALUES (1, 6, X'd80498f604a5f84b6c91c98a8e78520e', '{\"starts_at\":1767272400000000,\"id\":\"toolu_1\",\"asked\":{\"name\":\"get_weather\",\"arguments\":null},\"since\":1767272418500000,\"status\":\"Failed\",\"kind\":\"internal\",\"mishap\":true,\"mark\":\"x1:6112b7210272391c2622ac6e22c0bd7b\"}');

INSERT INTO toolledger_open_calls VALUES (2, 2, X'16fb9362e0ae4c7c8373788c29a5f58e', '{\"starts_at\":1767294000000000,\"id\":\"call_find\",\"asked\":{\"name\":\"find_order\",\"arguments\":{\"number\":7},\"id\":\"call_find\"},\"since\":1767294020500000,\"status\":\"Running\",\"attempts\":1,\"mark\":\"x1:28d398749132dc0d81de9de538e00000\"}');

INSERT INTO toolledger_open_calls VALUES (2, 2, X'7cd4cd4937b100c684f33549937d7fd2', '{\"starts_at\":1767294000000000,\"id\":\"call_cut\",\"asked\":{\"name\":\"find_order\",\"arguments\":null,\"id\":\"call_cut\",\"raw\":\"{\\\"number\\\": 7\"},\"since\":1767294020250000,\"status\":\"Pending\",\"mark\":\"x1:c9e0f2f9b5968bcc3474086feaade600\"}');

CREATE TABLE `toolledger_parked` (
  `projection` bigint(20) NOT NULL,
  `lane` int(11) NOT NULL,
  `key` binary(16) NOT NULL,
  `conversation_id` longtext NOT NULL,
  `version` bigint(20) NOT NULL,
  `position` bigint(20) NOT NULL,
  `event_id` varchar(32) NOT NULL,
  `recorded_at` bigint(20) NOT NULL,
  `tag` longtext NOT NULL,
  `problem` longtext NOT NULL,
  `waiting` bigint(20) NOT NULL,
  PRIMARY KEY (`projection`,`lane`,`key`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO toolledger_parked VALUES (2, 13, X'0deb957ce7a1d7a84e9c50db628114c7', 'newer', 4, 4, '73b09be2ab5bd10d44a8ab95eb2141a4', 1767294021500000, 'message', 'message (schema 99) is of a newer version of toolledger: upgrade to read it', 2);

CREATE TABLE `toolledger_projections` (
  `id` bigint(20) NOT NULL,
  `owner` binary(16) NOT NULL,
  `state` varchar(32) NOT NULL,
  `tenant` longtext NOT NULL,
  `epoch` varchar(64) NOT NULL,
  `format` int(11) NOT NULL,
  `views` varchar(64) NOT NULL,
  `bucket` bigint(20) NOT NULL,
  `created_at` bigint(20) NOT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `toolledger_projections_state` (`owner`,`state`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO toolledger_projections VALUES (1, X'32d9408df37a104a58912a6a4508ccd9', 'live', '', 'c425508655b57137', 2, 'statistics,tools', 3600000000, 1795365160828074);

INSERT INTO toolledger_projections VALUES (2, X'04e18619dfead76f6f0f51d35a0af341', 'live', 'acme', 'c425508655b57137', 2, 'statistics,tools', 3600000000, 1795365161177088);

CREATE TABLE `toolledger_store` (
  `id` int(11) NOT NULL,
  `epoch` varchar(64) NOT NULL,
  `lanes` int(11) NOT NULL,
  `created_at` bigint(20) NOT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;

INSERT INTO toolledger_store VALUES (1, 'c425508655b57137', 16, 1795365160180986);

CREATE TABLE `toolledger_streams` (
  `projection` bigint(20) NOT NULL,
  `lane` int(11) NOT NULL,
  `key` binary(16) NOT NULL,
  `conversation_id` longtext NOT NULL,
  `conversation` bigint(20) NOT NULL,
  `version` bigint(20) NOT NULL,
  PRIMARY KEY (`projection`,`lane`,`key`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO toolledger_streams VALUES (1, 3, X'2fa4abf6edae10eed2fff0590adf6531', 'from-bedrock', 2, 7);

INSERT INTO toolledger_streams VALUES (1, 3, X'771bc527a6013169369b1f817c6aca0a', 'every-member', 1, 13);

INSERT INTO toolledger_streams VALUES (1, 3, X'ec820a540da9b02e9d9443a51278e221', 'from-gemini', 3, 8);

INSERT INTO toolledger_streams VALUES (1, 4, X'661cd710f11e932fab37d78e07364cc9', 'support', 1, 61);

INSERT INTO toolledger_streams VALUES (1, 4, X'7f05b289fb94ba5e9eb4f67125771bc1', 'from-openai-responses', 2, 12);

INSERT INTO toolledger_streams VALUES (1, 5, X'28bb971d316b3195b1dd54b4dc500f0b', 'from-ollama', 1, 8);

INSERT INTO toolledger_streams VALUES (1, 6, X'29d73348574893e778128225eff94026', 'from-anthropic', 1, 8);

INSERT INTO toolledger_streams VALUES (1, 7, X'db7514625948fd1218fcad7d0f930bee', 'from-openai', 1, 8);

INSERT INTO toolledger_streams VALUES (1, 12, X'460d67091b221a4f91d8ea69e81b69ad', 'from-mistral', 1, 8);

INSERT INTO toolledger_streams VALUES (2, 2, X'661cd710f11e932fab37d78e07364cc9', 'support', 1, 8);

INSERT INTO toolledger_streams VALUES (2, 13, X'0deb957ce7a1d7a84e9c50db628114c7', 'newer', 1, 3);

CREATE TABLE `toolledger_tool_statistics` (
  `projection` bigint(20) NOT NULL,
  `lane` int(11) NOT NULL,
  `starts_at` bigint(20) NOT NULL,
  `key` binary(16) NOT NULL,
  `tool` longtext NOT NULL,
  `calls` bigint(20) NOT NULL,
  `open` bigint(20) NOT NULL,
  `attempts` bigint(20) NOT NULL,
  `retries` bigint(20) NOT NULL,
  `completions` bigint(20) NOT NULL,
  `failures` bigint(20) NOT NULL,
  `terminal_failures` bigint(20) NOT NULL,
  `recovered` bigint(20) NOT NULL,
  `rejections` bigint(20) NOT NULL,
  `outcome_unknown` bigint(20) NOT NULL,
  `repeated` bigint(20) NOT NULL,
  `first_tries` bigint(20) NOT NULL,
  `first_try_successes` bigint(20) NOT NULL,
  `body` longtext NOT NULL,
  PRIMARY KEY (`projection`,`lane`,`starts_at`,`key`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO toolledger_tool_statistics VALUES (1, 3, 1767268800000000, X'3e13f4dd76f669061a66d3d2f3c51dfd', 'drop_table', 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, '[\"drop_table\",{\"calls\":1,\"rejections\":{\"gate\":1}}]');

INSERT INTO toolledger_tool_statistics VALUES (1, 3, 1767268800000000, X'8f4ca608db96a6228096459bae34d7f1', 'search', 1, 0, 2, 1, 1, 1, 0, 1, 0, 0, 0, 1, 0, '[\"search\",{\"calls\":1,\"attempts\":2,\"retries\":1,\"completions\":1,\"synthetic\":1,\"lossy\":1,\"recovered\":1,\"mishaps\":1,\"not_at_once\":1,\"failures\":{\"rate_limit\":1},\"waiting\":{\"longest\":250000,\"counts\":{\"826\":1}},\"queueing\":{\"longest\":250000,\"counts\":{\"826\":1}},\"took\":{\"longest\":1000001,\"counts\":{\"826\":1,\"954\":1}}}]');

INSERT INTO toolledger_tool_statistics VALUES (1, 3, 1767276000000000, X'45e240ae2f8328649aaf286b238c7c47', 'get_weather', 2, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 2, 1, '[\"get_weather\",{\"calls\":2,\"completions\":1,\"mishaps\":1,\"terminal\":1,\"failures\":{\"internal\":1}}]');

INSERT INTO toolledger_tool_statistics VALUES (1, 3, 1767279600000000, X'45e240ae2f8328649aaf286b238c7c47', 'get_weather', 2, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 2, 1, '[\"get_weather\",{\"calls\":2,\"completions\":1,\"mishaps\":1,\"terminal\":1,\"failures\":{\"internal\":1}}]');

INSERT INTO toolledger_tool_statistics VALUES (1, 4, 1767268800000000, X'88327d032e6f5bca68ce85a734330761', 'refund', 4, 1, 2, 0, 3, 0, 0, 0, 0, 0, 0, 2, 2, '[\"refund\",{\"calls\":4,\"attempts\":2,\"completions\":3,\"synthetic\":1,\"lossy\":1,\"not_at_once\":1,\"open\":1,\"waiting\":{\"longest\":250000,\"counts\":{\"826\":1}},\"queueing\":{\"longest\":250000,\"counts\":{\"826\":2}},\"took\":{\"longest\":250000,\"counts\":{\"826\":2}}}]');

INSERT INTO toolledger_tool_statistics VALUES (1, 4, 1767268800000000, X'961d174fd5bfcfda99f89d8d0bc5c33c', 'chart', 1, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 1, 1, '[\"chart\",{\"calls\":1,\"attempts\":1,\"completions\":1,\"queueing\":{\"longest\":250000,\"counts\":{\"826\":1}},\"took\":{\"longest\":250000,\"counts\":{\"826\":1}}}]');

INSERT INTO toolledger_tool_statistics VALUES (1, 4, 1767268800000000, X'eb2a9adc0f79eb78bdd7cdf360ee6fb3', 'find_order', 8, 3, 7, 2, 2, 5, 3, 1, 0, 2, 2, 5, 1, '[\"find_order\",{\"calls\":8,\"attempts\":7,\"retries\":2,\"lost\":1,\"completions\":2,\"recovered\":1,\"repeated\":2,\"mishaps\":4,\"not_at_once\":1,\"open\":3,\"running\":1,\"terminal\":3,\"failures\":{\"rate_limit\":1,\"transient\":3,\"validation\":1},\"waiting\":{\"longest\":250000,\"counts\":{\"826\":1}},\"queueing\":{\"longest\":500000,\"counts\":{\"890\":1,\"826\":4}},\"took\":{\"longest\":250000,\"counts\":{\"826\":6}}}]');

INSERT INTO toolledger_tool_statistics VALUES (1, 4, 1767268800000000, X'fa3e5638f816ce1f29218bf8a2c71cb7', 'drop', 6, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, '[\"drop\",{\"calls\":6,\"rejections\":{\"human\":1,\"gate\":1,\"hook\":1,\"rule\":1,\"limit\":1,\"sibling\":1},\"waiting\":{\"longest\":250000,\"counts\":{\"826\":1}}}]');

INSERT INTO toolledger_tool_statistics VALUES (1, 4, 1767294000000000, X'45e240ae2f8328649aaf286b238c7c47', 'get_weather', 2, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 2, 2, '[\"get_weather\",{\"calls\":2,\"completions\":2}]');

INSERT INTO toolledger_tool_statistics VALUES (1, 5, 1767286800000000, X'45e240ae2f8328649aaf286b238c7c47', 'get_weather', 2, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 2, 2, '[\"get_weather\",{\"calls\":2,\"completions\":2}]');

INSERT INTO toolledger_tool_statistics VALUES (1, 6, 1767272400000000, X'45e240ae2f8328649aaf286b238c7c47', 'get_weather', 2, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 2, 1, '[\"get_weather\",{\"calls\":2,\"completions\":1,\"mishaps\":1,\"terminal\":1,\"failures\":{\"internal\":1}}]');

INSERT INTO toolledger_tool_statistics VALUES (1, 7, 1767290400000000, X'45e240ae2f8328649aaf286b238c7c47', 'get_weather', 2, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 2, 2, '[\"get_weather\",{\"calls\":2,\"completions\":2}]');

INSERT INTO toolledger_tool_statistics VALUES (1, 12, 1767283200000000, X'45e240ae2f8328649aaf286b238c7c47', 'get_weather', 2, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 2, 2, '[\"get_weather\",{\"calls\":2,\"completions\":2}]');

INSERT INTO toolledger_tool_statistics VALUES (2, 2, 1767294000000000, X'eb2a9adc0f79eb78bdd7cdf360ee6fb3', 'find_order', 2, 2, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, '[\"find_order\",{\"calls\":2,\"attempts\":1,\"open\":2,\"running\":1,\"queueing\":{\"longest\":500000,\"counts\":{\"890\":1}}}]');

CREATE TABLE `toolledger_version` (
  `version_num` varchar(32) NOT NULL,
  PRIMARY KEY (`version_num`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;

INSERT INTO toolledger_version VALUES ('0001');

