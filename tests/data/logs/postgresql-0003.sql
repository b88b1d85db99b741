
CREATE TABLE public.toolledger_archives (
    lane integer NOT NULL,
    conversation bigint NOT NULL,
    version integer NOT NULL,
    archived_at bigint NOT NULL,
    place text NOT NULL
);

CREATE TABLE public.toolledger_conversations (
    lane integer NOT NULL,
    conversation bigint NOT NULL,
    tenant character varying(128) NOT NULL COLLATE pg_catalog."C",
    conversation_id character varying(512) NOT NULL COLLATE pg_catalog."C",
    slice integer NOT NULL
);

CREATE TABLE public.toolledger_event_ids (
    lane integer NOT NULL,
    conversation bigint NOT NULL,
    event_id bytea NOT NULL,
    version integer NOT NULL
);

CREATE TABLE public.toolledger_events (
    lane integer CONSTRAINT toolledger_events_lane_not_null1 NOT NULL,
    "position" bigint CONSTRAINT toolledger_events_position_not_null1 NOT NULL,
    conversation bigint CONSTRAINT toolledger_events_conversation_not_null1 NOT NULL,
    version integer CONSTRAINT toolledger_events_version_not_null1 NOT NULL,
    event_id bytea CONSTRAINT toolledger_events_event_id_not_null1 NOT NULL,
    recorded_at bigint CONSTRAINT toolledger_events_recorded_at_not_null1 NOT NULL,
    occurred_at bigint,
    tag text CONSTRAINT toolledger_events_tag_not_null1 NOT NULL,
    schema integer CONSTRAINT toolledger_events_schema_not_null1 NOT NULL,
    fingerprint bytea,
    chain bytea NOT NULL,
    payload text CONSTRAINT toolledger_events_payload_not_null1 NOT NULL,
    salt bytea
);

CREATE TABLE public.toolledger_fingerprints (
    lane integer NOT NULL,
    fingerprint bytea NOT NULL,
    conversation bigint NOT NULL,
    version integer NOT NULL
);

CREATE TABLE public.toolledger_lanes (
    lane integer NOT NULL,
    "position" bigint NOT NULL
);

CREATE TABLE public.toolledger_seals (
    lane integer NOT NULL,
    previous bigint NOT NULL,
    size bigint NOT NULL,
    root bytea NOT NULL,
    edge bytea NOT NULL,
    note text NOT NULL
);

CREATE TABLE public.toolledger_store (
    id integer NOT NULL,
    epoch text NOT NULL,
    lanes integer NOT NULL,
    created_at bigint NOT NULL,
    digest bytea
);

CREATE TABLE public.toolledger_subjects (
    lane integer NOT NULL,
    subject bytea NOT NULL,
    conversation bigint NOT NULL,
    version integer NOT NULL,
    digest bytea NOT NULL
);

CREATE TABLE public.toolledger_version (
    version_num character varying(32) NOT NULL
);
INSERT INTO public.toolledger_conversations VALUES (0, 1, '', 'chat', 37);
INSERT INTO public.toolledger_conversations VALUES (12, 1, '', 'other', 771);
INSERT INTO public.toolledger_events VALUES (0, 1, 1, 1, '\x019b796dd600700081d34a40e0e82aa7', 1767268800000000, NULL, 'message', 1, NULL, '\x9056626ef8e1d12430550a28d23e9879', '{"role":"user","parts":[{"type":"text","text":"chat 0"}]}', '\x4465e0fdb2f9a733908a3e640a80b886');
INSERT INTO public.toolledger_events VALUES (0, 2, 1, 2, '\x019b796dd600700081d34a40e0e82aa8', 1767268800000000, NULL, 'message', 1, NULL, '\x01ab0566f79462520fca045be234ad9f', '{"role":"user","parts":[{"type":"text","text":"chat 1"}]}', '\xf75f6f83af62e4205cef0323a4cf192a');
INSERT INTO public.toolledger_events VALUES (0, 3, 1, 3, '\x019b796dd600700081d34a40e0e82aa9', 1767268800000000, NULL, 'message', 1, NULL, '\x8c29baf062bccf31b40797effac755ed', '{"role":"user","parts":[{"type":"text","text":"chat 2"}]}', '\x54fc09fdfa4aa5f07cbc0c8b5c21be6f');
INSERT INTO public.toolledger_events VALUES (0, 4, 1, 4, '\x019b796dd600700081d34a40e0e82aaa', 1767268800000000, NULL, 'message', 1, NULL, '\x37edd50a8d378eccbfe90b6965eee16e', '{"role":"user","parts":[{"type":"text","text":"chat 3"}]}', '\x6ded565d8011b4d425fb6f22040208dc');
INSERT INTO public.toolledger_events VALUES (0, 5, 1, 5, '\x019b796dd600700081d34a40e0e82aab', 1767268800000000, NULL, 'message', 1, NULL, '\x26969aa4c5fd9e5cb171bb788bfe71e8', '{"role":"user","parts":[{"type":"text","text":"chat 4"}]}', '\x9a7ed9710cd8d91f42c088d9d8baa5af');
INSERT INTO public.toolledger_events VALUES (0, 6, 1, 6, '\x019b796dd600700081d34a40e0e82aac', 1767268800000000, NULL, 'message', 1, NULL, '\xc543bd9609e5322805145a008e57f944', '{"role":"user","parts":[{"type":"text","text":"chat 5"}]}', '\xffe0d974e4571cfd1b004519dee983cc');
INSERT INTO public.toolledger_events VALUES (0, 7, 1, 7, '\x019b796dd600700081d34a40e0e82aad', 1767268800000000, NULL, 'message', 1, NULL, '\x39f0a0cd438022ec7f962634d886e2bc', '{"role":"user","parts":[{"type":"text","text":"chat 6"}]}', '\xbaf745a8f3dc3f2cb090ed8b6be8a03c');
INSERT INTO public.toolledger_events VALUES (0, 8, 1, 8, '\x019b796dd600700081d34a40e0e82aae', 1767268800000000, NULL, 'message', 1, NULL, '\xb2bfc1d99f09a79a14ad74fd9cadbe0a', '{"role":"user","parts":[{"type":"text","text":"chat 7"}]}', '\xfaa4ab31eb22d411d0ec32b09fb72706');
INSERT INTO public.toolledger_events VALUES (0, 9, 1, 9, '\x019b796dd600700081d34a40e0e82aaf', 1767268800000000, NULL, 'message', 1, NULL, '\xfd34547d24d24be4cc98865892882b18', '{"role":"user","parts":[{"type":"text","text":"chat 8"}]}', '\x6e85aa0b284c3c62cba3610fb579261f');
INSERT INTO public.toolledger_events VALUES (0, 10, 1, 10, '\x019b796dd600700081d34a40e0e82ab0', 1767268800000000, NULL, 'message', 1, NULL, '\x31c51bfb8fbca3c363eb4c62235949ee', '{"role":"user","parts":[{"type":"text","text":"chat 9"}]}', '\x21eab89ad76372ba54bcc4f58d90fada');
INSERT INTO public.toolledger_events VALUES (0, 11, 1, 11, '\x019b796dd600700081d34a40e0e82ab1', 1767268800000000, NULL, 'message', 1, NULL, '\xcc08268ad6055f446476f224370a4051', '{"role":"user","parts":[{"type":"text","text":"chat 10"}]}', '\x8ee31a993cd73996a8f0a1ae04bcb33f');
INSERT INTO public.toolledger_events VALUES (0, 12, 1, 12, '\x019b796dd600700081d34a40e0e82ab2', 1767268800000000, NULL, 'message', 1, NULL, '\x4c2a5bc8d9a567d335cfe4bfdcaf5527', '{"role":"user","parts":[{"type":"text","text":"chat 11"}]}', '\x840705942a02a294dd99287f1d2b7b4c');
INSERT INTO public.toolledger_events VALUES (0, 13, 1, 13, '\x019b796dd600700081d34a40e0e82ab3', 1767268800000000, NULL, 'message', 1, NULL, '\x5eacdc26968d063ccb82eb32cc91a291', '{"role":"user","parts":[{"type":"text","text":"chat 12"}]}', '\x570f5502a8c37b7dd500210ccf8515b6');
INSERT INTO public.toolledger_events VALUES (0, 14, 1, 14, '\x019b796dd600700081d34a40e0e82ab4', 1767268800000000, NULL, 'message', 1, NULL, '\x89be998b1eb9bd0a486945d654c3dac1', '{"role":"user","parts":[{"type":"text","text":"chat 13"}]}', '\xe38a6067548370ada7420793f758e0e4');
INSERT INTO public.toolledger_events VALUES (0, 15, 1, 15, '\x019b796dd600700081d34a40e0e82ab5', 1767268800000000, NULL, 'message', 1, NULL, '\xff99d0b30b5fcef098f35d77e427847b', '{"role":"user","parts":[{"type":"text","text":"chat 14"}]}', '\xbb727726080540aa1b1316f06bf63dac');
INSERT INTO public.toolledger_events VALUES (0, 16, 1, 16, '\x019b796dd600700081d34a40e0e82ab6', 1767268800000000, NULL, 'message', 1, NULL, '\x13932ea7c7aed1c962cd5130a454edff', '{"role":"user","parts":[{"type":"text","text":"chat 15"}]}', '\x345930b74dceb3de9d2c222c75433ab8');
INSERT INTO public.toolledger_events VALUES (0, 17, 1, 17, '\x019b796dd600700081d34a40e0e82ab7', 1767268800000000, NULL, 'message', 1, NULL, '\x9fd39ebe3c7560f8dcb49ee3780fd883', '{"role":"user","parts":[{"type":"text","text":"chat 16"}]}', '\xe491ceb9c23ebc7085ec5d876f61ae81');
INSERT INTO public.toolledger_events VALUES (0, 18, 1, 18, '\x019b796dd600700081d34a40e0e82ab8', 1767268800000000, NULL, 'message', 1, NULL, '\x688d07e687fc9534e9b3b036e8d1ae52', '{"role":"user","parts":[{"type":"text","text":"chat 17"}]}', '\x40e787e284d8eb8fcfabbdfe700b7b9f');
INSERT INTO public.toolledger_events VALUES (0, 19, 1, 19, '\x019b796dd600700081d34a40e0e82ab9', 1767268800000000, NULL, 'message', 1, NULL, '\xb2d9fcf530e4e98e17c86961acdbcdc4', '{"role":"user","parts":[{"type":"text","text":"chat 18"}]}', '\x1f602a7a539e0c9f79391150610433c5');
INSERT INTO public.toolledger_events VALUES (0, 20, 1, 20, '\x019b796dd600700081d34a40e0e82aba', 1767268800000000, NULL, 'message', 1, NULL, '\xf4616a8b37d855b6519b6629bd206627', '{"role":"user","parts":[{"type":"text","text":"chat 19"}]}', '\x5e2bfa72368511e06aba92e1d6ba48a5');
INSERT INTO public.toolledger_events VALUES (0, 21, 1, 21, '\x019b796dd600700081d34a40e0e82abb', 1767268800000000, NULL, 'message', 1, NULL, '\xba4bbe88a5e5dd747cba7c5d59a8d6be', '{"role":"user","parts":[{"type":"text","text":"chat 20"}]}', '\x9275807221b748204705a5eb2d73d31c');
INSERT INTO public.toolledger_events VALUES (0, 22, 1, 22, '\x019b796dd600700081d34a40e0e82abc', 1767268800000000, NULL, 'message', 1, NULL, '\xf95e076d94eed878032b2760b5e8ad20', '{"role":"user","parts":[{"type":"text","text":"chat 21"}]}', '\xe404090576ff389b178a0b2c7c18768b');
INSERT INTO public.toolledger_events VALUES (0, 23, 1, 23, '\x019b796dd600700081d34a40e0e82abd', 1767268800000000, NULL, 'message', 1, NULL, '\xbe524dd5a7bb21d037376c73dd3dbbf9', '{"role":"user","parts":[{"type":"text","text":"chat 22"}]}', '\x879c6b457c427613c73c149b54d51df2');
INSERT INTO public.toolledger_events VALUES (0, 24, 1, 24, '\x019b796dd600700081d34a40e0e82abe', 1767268800000000, NULL, 'message', 1, NULL, '\x2161945ef1c7fea6e66fe794afda53b9', '{"role":"user","parts":[{"type":"text","text":"chat 23"}]}', '\xc246899f6b9735fbb3e6ddaaf6ab3016');
INSERT INTO public.toolledger_events VALUES (0, 25, 1, 25, '\x019b796dd600700081d34a40e0e82abf', 1767268800000000, NULL, 'message', 1, NULL, '\xf7bc6eea4cf683f25f9d32cb21f8dfc5', '{"role":"user","parts":[{"type":"text","text":"chat 24"}]}', '\x0a8fa6603f5f12dd8a219cbd37d71d66');
INSERT INTO public.toolledger_events VALUES (0, 26, 1, 26, '\x019b796dd600700081d34a40e0e82ac0', 1767268800000000, NULL, 'message', 1, NULL, '\x6fb450fd9797c77ff50ba90e11d602f9', '{"role":"user","parts":[{"type":"text","text":"chat 25"}]}', '\x14be8adcf7965d18e4fc042bb5740d13');
INSERT INTO public.toolledger_events VALUES (0, 27, 1, 27, '\x019b796dd600700081d34a40e0e82ac1', 1767268800000000, NULL, 'message', 1, NULL, '\x93c6134ccbb054b8a147fcdae0b216c0', '{"role":"user","parts":[{"type":"text","text":"chat 26"}]}', '\x050b38a48d4eba9a213a966bfba20828');
INSERT INTO public.toolledger_events VALUES (0, 28, 1, 28, '\x019b796dd600700081d34a40e0e82ac2', 1767268800000000, NULL, 'message', 1, NULL, '\x9946458f1f3fb512bad06bf9541eb5db', '{"role":"user","parts":[{"type":"text","text":"chat 27"}]}', '\xc0e5e3759fc39dbec75d7b1be61f47ea');
INSERT INTO public.toolledger_events VALUES (0, 29, 1, 29, '\x019b796dd600700081d34a40e0e82ac3', 1767268800000000, NULL, 'message', 1, NULL, '\x08b888da91033e3c97f6bc692e89ece4', '{"role":"user","parts":[{"type":"text","text":"chat 28"}]}', '\x93be920f1c8b2b2413a8aef96596c62a');
INSERT INTO public.toolledger_events VALUES (0, 30, 1, 30, '\x019b796dd600700081d34a40e0e82ac4', 1767268800000000, NULL, 'message', 1, NULL, '\x2a3ae2b75d70059b7680e7008fa79517', '{"role":"user","parts":[{"type":"text","text":"chat 29"}]}', '\xcc40e2ef3753b5fb875318d7b35e7a97');
INSERT INTO public.toolledger_events VALUES (0, 31, 1, 31, '\x019b796dd600700081d34a40e0e82ac5', 1767268800000000, NULL, 'message', 1, NULL, '\xdaa7c6ba95725fb4df20df37ae56cc3b', '{"role":"user","parts":[{"type":"text","text":"chat 30"}]}', '\x5b70326be1a54727479b5006011ca44f');
INSERT INTO public.toolledger_events VALUES (0, 32, 1, 32, '\x019b796dd600700081d34a40e0e82ac6', 1767268800000000, NULL, 'message', 1, NULL, '\xe2d235a466fd479dc18e1f49e0eed7d4', '{"role":"user","parts":[{"type":"text","text":"chat 31"}]}', '\x4ca0b9459e179924e85fd3683d859062');
INSERT INTO public.toolledger_events VALUES (0, 33, 1, 33, '\x019b796dd600700081d34a40e0e82ac7', 1767268800000000, NULL, 'message', 1, NULL, '\x26083c9234d13d98f3b5e9e289ad6213', '{"role":"user","parts":[{"type":"text","text":"chat 32"}]}', '\xf617dc6481cea23d4e8d8abf18c159f3');
INSERT INTO public.toolledger_events VALUES (0, 34, 1, 34, '\x019b796dd600700081d34a40e0e82ac8', 1767268800000000, NULL, 'message', 1, NULL, '\x9bf723ce66d26a900c97a4d5463e5ed3', '{"role":"user","parts":[{"type":"text","text":"chat 33"}]}', '\x1fb80fcc865d9b52ac68d8b38854e820');
INSERT INTO public.toolledger_events VALUES (0, 35, 1, 35, '\x019b796dd600700081d34a40e0e82ac9', 1767268800000000, NULL, 'message', 1, NULL, '\x8a7b6aa635f340829b05cdff7911d1e0', '{"role":"user","parts":[{"type":"text","text":"chat 34"}]}', '\x22501065abb60b88e6198920dcdd0fdd');
INSERT INTO public.toolledger_events VALUES (0, 36, 1, 36, '\x019b796dd600700081d34a40e0e82aca', 1767268800000000, NULL, 'message', 1, NULL, '\xd56c074775715008fb61d010c5dd5477', '{"role":"user","parts":[{"type":"text","text":"chat 35"}]}', '\x0fce2400f12735fa39f94e27f1bae392');
INSERT INTO public.toolledger_events VALUES (0, 37, 1, 37, '\x019b796dd600700081d34a40e0e82acb', 1767268800000000, NULL, 'message', 1, NULL, '\x11356bb88dd24f06b175780d9aedee97', '{"role":"user","parts":[{"type":"text","text":"chat 36"}]}', '\xb977359233eadb12257d439fc2304a77');
INSERT INTO public.toolledger_events VALUES (0, 38, 1, 38, '\x019b796dd600700081d34a40e0e82acc', 1767268800000000, NULL, 'message', 1, NULL, '\xee1eff4597ed0d795fc32aa158842ec8', '{"role":"user","parts":[{"type":"text","text":"chat 37"}]}', '\x672a0228010f18420088c44e786a96da');
INSERT INTO public.toolledger_events VALUES (0, 39, 1, 39, '\x019b796dd600700081d34a40e0e82acd', 1767268800000000, NULL, 'message', 1, NULL, '\x6056b63f6d2323963742a7bc10909e59', '{"role":"user","parts":[{"type":"text","text":"chat 38"}]}', '\xaa7e6b9f9324c9647d8e6750115eb0df');
INSERT INTO public.toolledger_events VALUES (0, 40, 1, 40, '\x019b796dd600700081d34a40e0e82ace', 1767268800000000, NULL, 'message', 1, NULL, '\xa6f592f078a12796c5317780541e8907', '{"role":"user","parts":[{"type":"text","text":"chat 39"}]}', '\xdb35357c558c5d116b5ed57a635b68e6');
INSERT INTO public.toolledger_events VALUES (0, 41, 1, 41, '\x019b796dd600700081d34a40e0e82acf', 1767268800000000, NULL, 'message', 1, NULL, '\xa653e589db4f09b75c55aed7835c250d', '{"role":"user","parts":[{"type":"text","text":"chat 40"}]}', '\x91af38a197ec72133ac6532d3bbde5db');
INSERT INTO public.toolledger_events VALUES (0, 42, 1, 42, '\x019b796dd600700081d34a40e0e82ad0', 1767268800000000, NULL, 'message', 1, NULL, '\x25f0c7941e183f62c844acc2e98676eb', '{"role":"user","parts":[{"type":"text","text":"chat 41"}]}', '\x5de4518ec64b5f90410a41d4261325d2');
INSERT INTO public.toolledger_events VALUES (0, 43, 1, 43, '\x019b796dd600700081d34a40e0e82ad1', 1767268800000000, NULL, 'message', 1, NULL, '\x1a907a3ba0c401c1da008f93619e1408', '{"role":"user","parts":[{"type":"text","text":"chat 42"}]}', '\xb2208a832745782251e34683080d4c59');
INSERT INTO public.toolledger_events VALUES (0, 44, 1, 44, '\x019b796dd600700081d34a40e0e82ad2', 1767268800000000, NULL, 'message', 1, NULL, '\xdfb4b3cff05abd4582c468454d98247b', '{"role":"user","parts":[{"type":"text","text":"chat 43"}]}', '\x34c63a46ea351cba9f8cdce936d549f7');
INSERT INTO public.toolledger_events VALUES (0, 45, 1, 45, '\x019b796dd600700081d34a40e0e82ad3', 1767268800000000, NULL, 'message', 1, NULL, '\x73af990721bc2c0522e4ac71228c8991', '{"role":"user","parts":[{"type":"text","text":"chat 44"}]}', '\x7cf05f95534972a6bc2b82604194b2e9');
INSERT INTO public.toolledger_events VALUES (0, 46, 1, 46, '\x019b796dd600700081d34a40e0e82ad4', 1767268800000000, NULL, 'message', 1, NULL, '\xaf3f9a88655110527bc25c3403f5fbe3', '{"role":"user","parts":[{"type":"text","text":"chat 45"}]}', '\x16fc03fb94949ef24c259e4e593d3fe4');
INSERT INTO public.toolledger_events VALUES (0, 47, 1, 47, '\x019b796dd600700081d34a40e0e82ad5', 1767268800000000, NULL, 'message', 1, NULL, '\x7b616d8b7bf36bdc2bfc1d943a6e3ca2', '{"role":"user","parts":[{"type":"text","text":"chat 46"}]}', '\xd1ec89be6e55532db460ab5b69ea6dd9');
INSERT INTO public.toolledger_events VALUES (0, 48, 1, 48, '\x019b796dd600700081d34a40e0e82ad6', 1767268800000000, NULL, 'message', 1, NULL, '\x99a5d29abc1258f8779b9b9365516f98', '{"role":"user","parts":[{"type":"text","text":"chat 47"}]}', '\x02283abc99580d804b6838f243f0e075');
INSERT INTO public.toolledger_events VALUES (0, 49, 1, 49, '\x019b796dd600700081d34a40e0e82ad7', 1767268800000000, NULL, 'message', 1, NULL, '\x9f6c493a669b20ee5cb488471b471d3d', '{"role":"user","parts":[{"type":"text","text":"chat 48"}]}', '\x2c8132623365e519f53d706d3a706ac3');
INSERT INTO public.toolledger_events VALUES (0, 50, 1, 50, '\x019b796dd600700081d34a40e0e82ad8', 1767268800000000, NULL, 'message', 1, NULL, '\x36e1a50f27fdbcfabcd0787f751c61e5', '{"role":"user","parts":[{"type":"text","text":"chat 49"}]}', '\x850e9a2b5376ee95291e79e6ae7f7665');
INSERT INTO public.toolledger_events VALUES (0, 51, 1, 51, '\x019b796dd600700081d34a40e0e82ad9', 1767268800000000, NULL, 'message', 1, NULL, '\x20a06e9d89c41048e1ed187aee038ca0', '{"role":"user","parts":[{"type":"text","text":"chat 50"}]}', '\x7cbca21ac8d699fb512683cba2834b22');
INSERT INTO public.toolledger_events VALUES (0, 52, 1, 52, '\x019b796dd600700081d34a40e0e82ada', 1767268800000000, NULL, 'message', 1, NULL, '\x937cd03673f638f800320f30dedc7f13', '{"role":"user","parts":[{"type":"text","text":"chat 51"}]}', '\x67a1facd074ddf5f82412ec6a65dbd4d');
INSERT INTO public.toolledger_events VALUES (0, 53, 1, 53, '\x019b796dd600700081d34a40e0e82adb', 1767268800000000, NULL, 'message', 1, NULL, '\x8eb94d64db996e00d36ad7972582d03c', '{"role":"user","parts":[{"type":"text","text":"chat 52"}]}', '\x7d790ab27aea42a6d8bffb600dc8f3df');
INSERT INTO public.toolledger_events VALUES (0, 54, 1, 54, '\x019b796dd600700081d34a40e0e82adc', 1767268800000000, NULL, 'message', 1, NULL, '\x3cd47a9369d695a1e0eccb32199b10bc', '{"role":"user","parts":[{"type":"text","text":"chat 53"}]}', '\x80d0bb176ce8b60017c47950919451a0');
INSERT INTO public.toolledger_events VALUES (0, 55, 1, 55, '\x019b796dd600700081d34a40e0e82add', 1767268800000000, NULL, 'message', 1, NULL, '\xa2dc79fcff6915b685ba76d7bef8a834', '{"role":"user","parts":[{"type":"text","text":"chat 54"}]}', '\x369b654fe5224d11c28dcb9dabfbbdd3');
INSERT INTO public.toolledger_events VALUES (0, 56, 1, 56, '\x019b796dd600700081d34a40e0e82ade', 1767268800000000, NULL, 'message', 1, NULL, '\x9ebaa0746a23b4144dd365a40b75ec36', '{"role":"user","parts":[{"type":"text","text":"chat 55"}]}', '\x65b8ff9dff2de888b90ef6d43726f030');
INSERT INTO public.toolledger_events VALUES (0, 57, 1, 57, '\x019b796dd600700081d34a40e0e82adf', 1767268800000000, NULL, 'message', 1, NULL, '\x3288a264b9ed622b758e9b302b035fed', '{"role":"user","parts":[{"type":"text","text":"chat 56"}]}', '\x3cedfa91ec628c967282088ccea3a0e4');
INSERT INTO public.toolledger_events VALUES (0, 58, 1, 58, '\x019b796dd600700081d34a40e0e82ae0', 1767268800000000, NULL, 'message', 1, NULL, '\xbed5c7c215f21ae8d8d7e2b52ed5bb40', '{"role":"user","parts":[{"type":"text","text":"chat 57"}]}', '\xaae854b88c8d4d3e4165070467229e57');
INSERT INTO public.toolledger_events VALUES (0, 59, 1, 59, '\x019b796dd600700081d34a40e0e82ae1', 1767268800000000, NULL, 'message', 1, NULL, '\xbab9ccb5430e01f95371691ac3b7f0f1', '{"role":"user","parts":[{"type":"text","text":"chat 58"}]}', '\x745f845e7698f82bdab54eedc80495d0');
INSERT INTO public.toolledger_events VALUES (0, 60, 1, 60, '\x019b796dd600700081d34a40e0e82ae2', 1767268800000000, NULL, 'message', 1, NULL, '\x41c8853fd05689abff592de50831b2a8', '{"role":"user","parts":[{"type":"text","text":"chat 59"}]}', '\x30e360fdf8a99675d5230de2ec62f36c');
INSERT INTO public.toolledger_events VALUES (0, 61, 1, 61, '\x019b796dd600700081d34a40e0e82ae3', 1767268800000000, NULL, 'message', 1, NULL, '\x614e250a5ac1f97fd4dba1aac89fdc5d', '{"role":"user","parts":[{"type":"text","text":"chat 60"}]}', '\xfd8c8078eb18feee505f612fbe71dd3a');
INSERT INTO public.toolledger_events VALUES (0, 62, 1, 62, '\x019b796dd600700081d34a40e0e82ae4', 1767268800000000, NULL, 'message', 1, NULL, '\x70baf4c5a01b766a8f0faba08fcaa7ac', '{"role":"user","parts":[{"type":"text","text":"chat 61"}]}', '\x191498d19b72e61eacb543d088134bb7');
INSERT INTO public.toolledger_events VALUES (0, 63, 1, 63, '\x019b796dd600700081d34a40e0e82ae5', 1767268800000000, NULL, 'message', 1, NULL, '\x8931f0e2bbee2322d6d6ac8b26c724d0', '{"role":"user","parts":[{"type":"text","text":"chat 62"}]}', '\x81ccfc421b4ccef78aa6a880aa9552a2');
INSERT INTO public.toolledger_events VALUES (0, 64, 1, 64, '\x019b796dd600700081d34a40e0e82ae6', 1767268800000000, NULL, 'message', 1, NULL, '\xfeca818bbb802d81b6c4bee87f8d5b24', '{"role":"user","parts":[{"type":"text","text":"chat 63"}]}', '\x637900cbd5f3419fcae3465a259ad4c7');
INSERT INTO public.toolledger_events VALUES (0, 65, 1, 65, '\x019b796dd600700081d34a40e0e82ae7', 1767268800000000, NULL, 'message', 1, NULL, '\x5f12614bad89881446f6ed613c322649', '{"role":"user","parts":[{"type":"text","text":"chat 64"}]}', '\x215bbaeaba0c44eda5c1e4faf542bdc6');
INSERT INTO public.toolledger_events VALUES (0, 66, 1, 66, '\x019b796dd600700081d34a40e0e82ae8', 1767268800000000, NULL, 'message', 1, NULL, '\x889bb302a56bd9843ac150025440f7e8', '{"role":"user","parts":[{"type":"text","text":"chat 65"}]}', '\x3634400a5691337352974dd07d2efc30');
INSERT INTO public.toolledger_events VALUES (0, 67, 1, 67, '\x019b796dd600700081d34a40e0e82ae9', 1767268800000000, NULL, 'message', 1, NULL, '\xf6cc55fd924d59a4f25fc0a9940b3e98', '{"role":"user","parts":[{"type":"text","text":"chat 66"}]}', '\x008076dedc7ec874d8fa511065d1d6fe');
INSERT INTO public.toolledger_events VALUES (0, 68, 1, 68, '\x019b796dd600700081d34a40e0e82aea', 1767268800000000, NULL, 'message', 1, NULL, '\xfa0f6675d6205525e243b0e3c7fbf34d', '{"role":"user","parts":[{"type":"text","text":"chat 67"}]}', '\x0016b3beeb3b945ab9512ea4ec33d99e');
INSERT INTO public.toolledger_events VALUES (0, 69, 1, 69, '\x019b796dd600700081d34a40e0e82aeb', 1767268800000000, NULL, 'message', 1, NULL, '\xcad6d18e241a63e55e3cd0b5e40631f6', '{"role":"user","parts":[{"type":"text","text":"chat 68"}]}', '\x18a35008f7a71f039d79a520b6b7ec3c');
INSERT INTO public.toolledger_events VALUES (0, 70, 1, 70, '\x019b796dd600700081d34a40e0e82aec', 1767268800000000, NULL, 'message', 1, NULL, '\xdad7446136ac48d9f86f27cc5cc0093c', '{"role":"user","parts":[{"type":"text","text":"chat 69"}]}', '\x402e3d74f6e0bf2509888b24b38c8d99');
INSERT INTO public.toolledger_events VALUES (12, 1, 1, 1, '\x019b796dd600700081d34a40e0e82aed', 1767268800000000, NULL, 'message', 1, NULL, '\x9b7d4ea6999428f5fd273846f03acb4a', '{"role":"user","parts":[{"type":"text","text":"other 0"}]}', '\x876c1cbb0726f2aa04bbb7eeed37d30d');
INSERT INTO public.toolledger_events VALUES (12, 2, 1, 2, '\x019b796dd600700081d34a40e0e82aee', 1767268800000000, NULL, 'message', 1, NULL, '\xe857ed8e9a66f26f7143263a2e4d19c3', '{"role":"user","parts":[{"type":"text","text":"other 1"}]}', '\x03d77008773da2839402500e82916ffd');
INSERT INTO public.toolledger_events VALUES (0, 71, 1, 71, '\x019b796dd600700081d34a40e0e82aef', 1767268800000000, NULL, 'pending', 1, '\xed9f08b44f46d98a5c4bcd1f2da12954', '\xb7434f5d3446ef44d8e5361472e7a6e7', '{"call":{"name":"pay","arguments":{"order":7},"id":"call_d8d6dc7ecb359bae00010000"},"turn":1}', '\xb6879ff1139ba92837c7502e503bba1b');
INSERT INTO public.toolledger_fingerprints VALUES (0, '\xed9f08b44f46d98a5c4bcd1f2da12954', 1, 71);
INSERT INTO public.toolledger_lanes VALUES (1, 0);
INSERT INTO public.toolledger_lanes VALUES (2, 0);
INSERT INTO public.toolledger_lanes VALUES (3, 0);
INSERT INTO public.toolledger_lanes VALUES (4, 0);
INSERT INTO public.toolledger_lanes VALUES (5, 0);
INSERT INTO public.toolledger_lanes VALUES (6, 0);
INSERT INTO public.toolledger_lanes VALUES (7, 0);
INSERT INTO public.toolledger_lanes VALUES (8, 0);
INSERT INTO public.toolledger_lanes VALUES (9, 0);
INSERT INTO public.toolledger_lanes VALUES (10, 0);
INSERT INTO public.toolledger_lanes VALUES (11, 0);
INSERT INTO public.toolledger_lanes VALUES (13, 0);
INSERT INTO public.toolledger_lanes VALUES (14, 0);
INSERT INTO public.toolledger_lanes VALUES (15, 0);
INSERT INTO public.toolledger_lanes VALUES (12, 2);
INSERT INTO public.toolledger_lanes VALUES (0, 71);
INSERT INTO public.toolledger_store VALUES (1, 'da52e09bac7962ae', 16, 1795946255504650, '\x7b8c1a8f73371a4e6e1faae7794067f6');
INSERT INTO public.toolledger_version VALUES ('0003');
ALTER TABLE ONLY public.toolledger_archives
    ADD CONSTRAINT toolledger_archives_pk PRIMARY KEY (lane, conversation);
ALTER TABLE ONLY public.toolledger_conversations
    ADD CONSTRAINT toolledger_conversations_id UNIQUE (lane, tenant, conversation_id);
ALTER TABLE ONLY public.toolledger_conversations
    ADD CONSTRAINT toolledger_conversations_pk PRIMARY KEY (lane, conversation);
ALTER TABLE ONLY public.toolledger_event_ids
    ADD CONSTRAINT toolledger_event_ids_pk PRIMARY KEY (lane, conversation, event_id);
ALTER TABLE ONLY public.toolledger_events
    ADD CONSTRAINT toolledger_events_pk PRIMARY KEY (lane, "position");
ALTER TABLE ONLY public.toolledger_events
    ADD CONSTRAINT toolledger_events_version UNIQUE (lane, conversation, version);
ALTER TABLE ONLY public.toolledger_fingerprints
    ADD CONSTRAINT toolledger_fingerprints_pk PRIMARY KEY (lane, fingerprint, conversation, version);
ALTER TABLE ONLY public.toolledger_lanes
    ADD CONSTRAINT toolledger_lanes_pk PRIMARY KEY (lane);
ALTER TABLE ONLY public.toolledger_seals
    ADD CONSTRAINT toolledger_seals_pk PRIMARY KEY (lane, previous);
ALTER TABLE ONLY public.toolledger_store
    ADD CONSTRAINT toolledger_store_pk PRIMARY KEY (id);
ALTER TABLE ONLY public.toolledger_subjects
    ADD CONSTRAINT toolledger_subjects_pk PRIMARY KEY (lane, subject, conversation, version);
ALTER TABLE ONLY public.toolledger_version
    ADD CONSTRAINT toolledger_version_pkc PRIMARY KEY (version_num);
