//! The list of transfer cases: what each asks for, and which tests show it, or why none can here.
//!
//! Cases have a letter and a number: A full transfers, B incremental ones, C serials, D NOTIFY, E TSIG,
//! F TCP and TLS, G catalogs, I EDNS, J storage and crashes, K secondaries at length. (H is ZONEMD and waits
//! for it.) A test that begins with a case's id (`b9_`, `f05_f06_`) must stand in the list, and what
//! the list names must be there: so neither can be forgotten or renamed unseen.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// How many cases there are of each letter.
const COUNTS: [(char, usize); 10] = [
    ('A', 18),
    ('B', 23),
    ('C', 3),
    ('D', 11),
    ('E', 12),
    ('F', 10),
    ('G', 9),
    ('I', 6),
    ('J', 8),
    ('K', 4),
];

/// The hardest: all of them run, but the one that needs DNSSEC.
const HARDEST: [&str; 19] = [
    "A4", "A5", "A14", "A15", "A16", "B9", "B11", "B13", "B14", "B17", "B19", "B21", "D5", "D6",
    "D8", "E10", "F5", "G5", "J2",
];

/// A case: its id, what it asks for, the tests that show it (`FILE NAME`; in `src` without `.rs`), and
/// what of it is not run and why.
type Case = (
    &'static str,
    &'static str,
    &'static [&'static str],
    &'static str,
);

/// The cases.
#[rustfmt::skip]
const CASES: &[Case] = &[
    ("A1", "SOA and NS alone: one message, all bits right",
        &["src/transfer/stream/tests a1_the_smallest_zone_is_one_message"], ""),
    ("A2", "5 000 records: one ID, question once, SOA at both ends, each record once",
        &["src/transfer/stream/tests a2_axfr_has_the_form_of_rfc_5936"], ""),
    ("A3", "a record of 64 000 octets stands alone",
        &["src/transfer/stream/tests a3_a_record_larger_than_a_message_should_be_stands_alone"], ""),
    ("A4", "a record that fits no message is refused before it is published; forced, it is an error",
        &["src/transfer/stream/tests a4_a_record_that_fits_no_message_ends_the_reply_with_an_error",
          "src/zone/check a_record_has_to_leave_room_for_question_opt_and_tsig"], ""),
    ("A5", "no pointer beyond 16 383; another decoder reads the same",
        &["src/transfer/stream/tests a5_a8_large_messages_of_many_names_read_back",
          "src/dns/wire/tests random_messages_read_back_as_written"], ""),
    ("A6", "letters keep their case; pointers to the same case only",
        &["src/transfer/stream/tests a6_letters_keep_their_case",
          "src/dns/wire/tests a_name_in_other_case_is_not_pointed_to"], ""),
    ("A7", "names in data of types after RFC 1035 are whole",
        &["src/transfer/stream/tests a7_names_in_srv_are_whole",
          "src/dns/wire/tests only_data_of_rfc_1035_types_is_compressed"], ""),
    ("A8", "no pointer into another message",
        &["src/transfer/stream/tests a5_a8_large_messages_of_many_names_read_back"], ""),
    ("A9", "below a zone, and unknown zones: NOTAUTH with the question",
        &["src/serve/dispatch/tests/transfers axfr_is_for_zones_on_connections_and_those_who_may"], ""),
    ("A10", "denied: REFUSED, with OPT also EDE 18",
        &["src/serve/dispatch/tests/transfers axfr_is_for_zones_on_connections_and_those_who_may"], ""),
    ("A11", "AXFR over UDP: NOTIMP",
        &["src/serve/dispatch/tests/transfers axfr_is_for_zones_on_connections_and_those_who_may"], ""),
    ("A12", "wrong counts, octets left over: FORMERR, and the server lives",
        &["src/serve/dispatch/tests what_cannot_be_read_is_formerr_or_silence",
          "tests/crash_abuse changed_messages_harm_nobody_on_udp_tcp_and_tls"], ""),
    ("A13", "class CH REFUSED, class ANY FORMERR",
        &["src/serve/dispatch/tests classes_and_operations_we_do_not_serve"], ""),
    ("A14", "a reader that pauses sees one version to its end, and delays no update",
        &["src/serve/tcp/tests a14_a15_a_reader_that_pauses_gets_its_own_version_whole"],
        "what a version costs meanwhile, and that memory returns, is measured by the benches"),
    ("A15", "a slow reader finishes, one that stops is closed, others feel neither",
        &["src/serve/tcp/tests a14_a15_a_reader_that_pauses_gets_its_own_version_whole",
          "src/serve/tcp/tests f03_a_client_that_takes_nothing_is_closed_and_others_are_not_slowed"], ""),
    ("A16", "many transfers at once beside many that are denied: the limit is SERVFAIL, nobody starves",
        &["src/serve/dispatch/tests/transfers over_the_limit_of_transfers_is_servfail_and_denied_ones_take_no_place",
          "tests/crash_abuse a16_two_hundred_transfers_beside_refused_ones_are_all_whole"],
        "200 streams of a zone of 6 000 Services; one of two million records is the benches'"),
    ("A17", "glue, names below cuts, wildcards, empty levels, DNAME: all there, nothing from outside",
        &["src/transfer/stream/tests a17_all_a_zone_holds_is_sent_below_cuts_too",
          "tests/situation/transfers s78_a_transfer_has_everything_once_with_the_zone_s_ttl"], ""),
    ("A18", "a zone deleted during its transfer", &[],
        "cannot come: zones are fixed while the server runs"),
    ("B1", "one step",
        &["src/transfer/stream/tests/steps b1_one_step_is_new_old_removed_new_added_new"], ""),
    ("B2", "three steps, linked or condensed",
        &["src/transfer/stream/tests/steps b2_b13_b17_differences_lead_from_any_version_to_the_last"], ""),
    ("B3", "a client that has it or is ahead: the SOA alone",
        &["src/serve/dispatch/tests/transfers ixfr_needs_the_soa_of_the_zone_and_only_its_serial_counts"], ""),
    ("B4", "an unknown serial: the zone, asked as IXFR",
        &["src/transfer/stream/tests/steps b4_b5_unknown_and_undefined_serials_get_the_zone"], ""),
    ("B5", "2^31 away: the zone",
        &["src/transfer/stream/tests/steps b4_b5_unknown_and_undefined_serials_get_the_zone"], ""),
    ("B6", "UDP: the differences if they fit, else the SOA alone",
        &["src/serve/dispatch/tests/transfers ixfr_over_udp_is_the_differences_or_the_single_soa",
          "src/serve/dispatch/tests/transfers b06_with_edns_more_differences_fit_a_datagram"], ""),
    ("B7", "no SOA, another's, two, cut, misplaced: FORMERR",
        &["src/serve/dispatch/tests/transfers ixfr_needs_the_soa_of_the_zone_and_only_its_serial_counts"], ""),
    ("B8", "of the SOA in the request only the serial counts",
        &["src/serve/dispatch/tests/transfers ixfr_needs_the_soa_of_the_zone_and_only_its_serial_counts"], ""),
    ("B9", "another TTL: all records of the set go and come; applied by all five",
        &["src/transfer/stream/tests/steps b9_a_changed_ttl_replaces_the_whole_rrset",
          "tests/interop_steps b09_b10_b11_b12_b18_five_secondaries_apply_awkward_steps_by_ixfr"], ""),
    ("B10", "a record with a new TTL joins a set",
        &["tests/interop_steps b09_b10_b11_b12_b18_five_secondaries_apply_awkward_steps_by_ixfr"], ""),
    ("B11", "a change of case alone",
        &["tests/interop_steps b09_b10_b11_b12_b18_five_secondaries_apply_awkward_steps_by_ixfr"], ""),
    ("B12", "A to CNAME and back, the apex NS replaced, a name emptied",
        &["tests/interop_steps b09_b10_b11_b12_b18_five_secondaries_apply_awkward_steps_by_ixfr"], ""),
    ("B13", "condensed steps lead where they lead one by one, and are minimal",
        &["src/transfer/stream/tests/steps b2_b13_b17_differences_lead_from_any_version_to_the_last",
          "src/zone/laws steps_condensed_lead_where_they_lead_one_by_one",
          "src/zone/laws a_step_removes_only_what_is_there_and_adds_only_what_is_not"], ""),
    ("B14", "a chain across 2^32 is one step, and all five follow it by IXFR",
        &["src/transfer/stream/tests/steps b14_a_chain_across_the_wrap_is_one_step",
          "tests/interop_steps b14_five_secondaries_follow_across_the_wrap_by_ixfr"], ""),
    ("B15", "serial 0 is one like any",
        &["src/transfer/stream/tests/steps b15_zero_is_a_serial_like_any"],
        "not with real secondaries: our serials follow the clock and never are 0 before 2106"),
    ("B16", "differences larger than the zone are not sent",
        &["src/transfer/stream/tests/steps b16_differences_larger_than_the_zone_are_not_sent"], ""),
    ("B17", "the first message is never the SOA alone, wherever messages end",
        &["src/transfer/stream/tests/steps b2_b13_b17_differences_lead_from_any_version_to_the_last"], ""),
    ("B18", "the old SOA is exactly the old one, the new ones are equal",
        &["src/transfer/stream/tests/steps b18_the_old_soa_is_exactly_that_of_the_old_version",
          "tests/interop_steps b09_b10_b11_b12_b18_five_secondaries_apply_awkward_steps_by_ixfr"], ""),
    ("B19", "history that is cut while it is sent",
        &["src/transfer/stream/tests/steps b19_history_cut_while_it_is_sent_is_sent_to_its_end"], ""),
    ("B20", "a step of many records is many messages",
        &["src/transfer/stream/tests/steps b20_a_step_of_many_records_is_many_messages_of_bounded_size"],
        "40 000 records in place of a million"),
    ("B21", "signing again, by IXFR", &[], "needs DNSSEC, which comes later"),
    ("B22", "a serial set back or used twice",
        &["src/zone/journal/tests a_version_that_does_not_follow_the_stored_one_starts_the_zone_anew",
          "src/zone/journal/tests the_next_serial_is_above_the_version_before_the_floor_and_the_clock"], ""),
    ("B23", "many clients at few serials share what was condensed",
        &["src/transfer/stream/tests/steps b23_many_clients_at_the_same_serials_share_what_is_condensed"], ""),
    ("C1", "a table of pairs", &["src/dns/serial order_is_that_of_rfc_1982"], ""),
    ("C2", "steps to the edge of the arithmetic and beyond",
        &["src/dns/serial a_step_never_leaves_the_defined_range"], ""),
    ("C3", "the clock at its ends: always forward",
        &["src/dns/serial the_next_serial_is_always_after_the_previous"],
        "serials made of dates do not exist here"),
    ("D1", "the form of a NOTIFY, at once",
        &["src/transfer/notify/tests d1_a_notify_has_the_form_of_rfc_1996"],
        "the time it takes is the benches'"),
    ("D2", "a silent target: repeated, given up, no other waits",
        &["src/transfer/notify/tests d2_an_unanswered_telling_is_repeated_with_growing_waits_and_given_up",
          "src/transfer/notify/tests d2_d9_each_target_is_told_with_its_own_key_and_a_dead_one_delays_nobody"], ""),
    ("D3", "an answer of a wrong ID or from elsewhere is none",
        &["src/transfer/notify/tests d3_a_notify_is_repeated_until_a_response_with_its_id_comes",
          "src/transfer/notify/tests d3_a_response_from_elsewhere_ends_nothing"], ""),
    ("D4", "any code ends it",
        &["src/transfer/notify/tests d4_any_response_code_ends_the_telling",
          "tests/situation/transfers s84_each_refused_notify_is_reported"], ""),
    ("D5", "a hundred versions a second: few tellings, the last one final",
        &["src/transfer/notify/tests d5_the_first_change_goes_at_once_and_the_rest_by_interval",
          "src/transfer/notify/tests d5_the_last_notify_has_the_final_serial"], ""),
    ("D6", "what is repeated tells the newest",
        &["src/transfer/notify/tests d6_a_newer_version_takes_the_place_of_a_pending_repeat",
          "src/transfer/notify/tests d6_what_is_repeated_after_an_update_tells_the_new_serial"], ""),
    ("D7", "20 000 zones at the start", &[],
        "a cluster has a handful of zones: each target is told of each by a task of its own"),
    ("D8", "who is told finds it on every socket",
        &["src/transfer/notify/tests d8_whoever_is_told_finds_the_serial_on_every_socket"], ""),
    ("D9", "each target with its own key, none without the one it should have",
        &["src/transfer/notify/tests d2_d9_each_target_is_told_with_its_own_key_and_a_dead_one_delays_nobody",
          "src/transfer/notify/tests d9_a_target_whose_key_is_missing_is_not_told"], ""),
    ("D10", "the set of those who are told",
        &["src/corefile/tests/transfer transfer_names_secondaries_and_others"],
        "it is what `to` names, never made from NS records"),
    ("D11", "NOTIFY(CDS)", &[], "needs DNSSEC, which comes later"),
    ("E1", "each algorithm, keys of any length, against other programs",
        &["src/dns/tsig/tests e01_each_algorithm_verifies_what_it_signed",
          "src/dns/tsig/tests e01_macs_are_those_of_rfc_4231",
          "tests/interop_secure e01_dig_and_kdig_verify_what_each_algorithm_signs"], ""),
    ("E2", "a signature on each message, in one chain",
        &["src/transfer/stream/tests e02_every_message_of_a_signed_stream_is_signed_in_a_chain"], ""),
    ("E3", "unknown keys, known ones with another algorithm",
        &["src/dns/tsig/tests e03_an_unknown_key_or_another_algorithm_is_badkey",
          "src/dns/tsig/tests e03_e04_e05_refusals_say_what_they_must",
          "src/dns/tsig/tests e03_sha1_is_accepted_for_keys_that_name_it_only"], ""),
    ("E4", "a wrong MAC, none",
        &["src/dns/tsig/tests e04_a_wrong_mac_is_badsig",
          "src/dns/tsig/tests e03_e04_e05_refusals_say_what_they_must"], ""),
    ("E5", "times at the edge and beyond",
        &["src/dns/tsig/tests e05_a_clock_that_is_off_is_badtime",
          "src/dns/tsig/tests e03_e04_e05_refusals_say_what_they_must"], ""),
    ("E6", "MACs cut too far, as allowed, and too long",
        &["src/dns/tsig/tests e06_a_cut_mac_is_badtrunc_or_malformed",
          "src/dns/tsig/tests e06_a_key_of_a_cut_algorithm_takes_the_whole_ones_name_too"], ""),
    ("E7", "TSIG out of place, twice",
        &["src/serve/dispatch/tests/signed e07_a_refused_signature_is_notauth_and_one_out_of_place_formerr"], ""),
    ("E8", "an ID changed on the way, names in upper case",
        &["src/dns/tsig/tests e08_a_changed_id_and_upper_case_names_verify"], ""),
    ("E9", "signed and denied: REFUSED, EDE 18, signed",
        &["src/serve/dispatch/tests/signed e09_e11_signed_requests_get_signed_replies_also_refusals_and_truncated_ones"], ""),
    ("E10", "two signed transfers on one connection",
        &["src/serve/tcp/tests e10_two_signed_transfers_at_once_are_two_chains"], ""),
    ("E11", "a signed answer too large for UDP",
        &["src/serve/dispatch/tests/signed e09_e11_signed_requests_get_signed_replies_also_refusals_and_truncated_ones"], ""),
    ("E12", "any octets: no panic; no secret in a log",
        &["src/dns/tsig/tests e12_no_octets_make_the_check_panic",
          "src/dns/tsig/tests e12_secrets_are_not_shown",
          "src/dns/tsig/tests/fuzz e12_tsig_of_any_octets_never_verifies_what_was_not_signed"], ""),
    ("F1", "fifty requests at once are answered by ID",
        &["src/serve/tcp/tests f01_fifty_requests_on_one_connection_are_all_answered_by_id"], ""),
    ("F2", "single octets; lengths of 0 and 11",
        &["src/serve/tcp/tests f02_requests_in_single_octets_are_read_and_nonsense_closes"], ""),
    ("F3", "three limits of idleness",
        &["src/serve/tcp/tests f03_silent_connections_are_closed_before_and_after_the_first_request",
          "src/serve/tcp/tests f03_a_client_that_takes_nothing_is_closed_and_others_are_not_slowed",
          "src/serve/tls/tests f03_a_client_that_does_not_shake_hands_is_let_go"], ""),
    ("F4", "keepalive, and 0 while the server ends",
        &["src/serve/dispatch/tests/edns f04_keepalive_is_told_on_connections_and_is_nothing_once_the_server_ends",
          "src/serve/tls/tests f04_once_the_server_ends_a_connection_is_answered_once_more_and_closed"], ""),
    ("F5", "TLS 1.3 and `dot`, and what is not that",
        &["src/serve/tls/tests f05_transfers_need_dot_and_tls_13",
          "tests/interop_secure f05_f06_f07_dig_and_kdig_over_tls",
          "tests/interop_secure f05_openssl_shakes_hands_by_tls_13_and_dot_alone",
          "tests/interop_secure f05_bind_and_nsd_follow_over_tls"], ""),
    ("F6", "certificates of clients",
        &["src/serve/tls/tests f06_only_the_named_certificate_gets_the_zone",
          "src/serve/tls/tests f06_a_certificate_may_be_required_of_every_client",
          "tests/interop_secure f05_f06_f07_dig_and_kdig_over_tls"], ""),
    ("F7", "a zone for TLS alone, asked over TCP",
        &["src/serve/tls/tests f07_who_must_use_tls_is_refused_with_ede_18_elsewhere",
          "tests/interop_secure f05_f06_f07_dig_and_kdig_over_tls"], ""),
    ("F8", "ordinary queries on the port for TLS",
        &["src/serve/tls/tests f08_ordinary_queries_on_the_tls_port_are_answered"],
        "there is no port for transfers alone: every TLS port answers queries too (RFC 7858)"),
    ("F9", "10 000 connections reset in and after the handshake",
        &["src/serve/tls/tests f09_clients_that_reset_leave_nothing_behind",
          "tests/crash_abuse f09_ten_thousand_resets_leave_nothing_behind"], ""),
    ("F10", "a certificate replaced while transfers run",
        &["src/serve/tls/tests f10_a_new_certificate_is_shown_to_new_connections_and_old_ones_go_on",
          "tests/interop_secure f10_certificate_and_key_files_are_read_again"], ""),
    ("G1", "a catalog of three members, at those who read catalogs",
        &["src/pipeline/tests/catalog g1_a_catalog_of_three_members_is_what_rfc_9432_wants",
          "tests/interop_catalog g1_zones_show_up_and_go_at_bind_knot_and_powerdns_by_themselves"],
        "NSD reads catalogs from 4.9 on; Debian 12 has 4.6"),
    ("G2", "a member that comes back has a new label",
        &["src/pipeline/tests/catalog g2_a_member_that_left_and_comes_back_has_another_label_each_time"], ""),
    ("G3", "a restart is no news",
        &["src/pipeline/tests/catalog g3_a_restart_changes_neither_labels_nor_serial"], ""),
    ("G4", "one member twice, and in two catalogs",
        &["src/corefile/tests/catalog g4_one_zone_in_two_catalogs_is_refused_unless_it_moves"], ""),
    ("G5", "a member moves from one catalog to the other, whichever is seen first",
        &["src/pipeline/tests/catalog g5_a_member_keeps_its_label_in_the_catalog_it_moves_to",
          "tests/interop_catalog g5_a_zone_that_moves_to_another_catalog_is_served_again_at_once"],
        "not Knot 3.2.6, which purges the zone when the old catalog drops it: the cause is not known yet"),
    ("G6", "groups",
        &["src/pipeline/tests/catalog g6_groups_and_moves_stand_below_the_member"], ""),
    ("G7", "one more among many members",
        &["src/pipeline/tests/catalog g7_one_more_among_many_members_is_a_step_of_one_record"],
        "20 000 members in place of 100 000"),
    ("G8", "a catalog that would become empty",
        &["src/corefile/tests/catalog g8_a_catalog_without_a_member_is_refused",
          "src/pipeline/tests/catalog g8_what_was_announced_stays_while_its_version_is_gone"], ""),
    ("G9", "a member without a version is not announced",
        &["src/pipeline/tests/catalog g9_a_member_is_announced_once_it_has_a_version"], ""),
    ("I1", "EDNS version 1, two OPTs, unknown options",
        &["src/serve/dispatch/tests/edns i01_versions_duplicates_and_unknown_options"], ""),
    ("I2", "NSID, EXPIRE, COOKIE, ZONEVERSION together",
        &["src/serve/dispatch/tests/edns i02_options_are_given_on_soa_and_single_answers_when_asked_for",
          "src/serve/dispatch/tests/edns i02_i03_each_message_of_a_transfer_has_one_opt_and_the_first_the_options"], ""),
    ("I3", "one OPT in each message of a transfer",
        &["src/serve/dispatch/tests/edns i02_i03_each_message_of_a_transfer_has_one_opt_and_the_first_the_options"], ""),
    ("I4", "cookies of all lengths, old ones, ones from the future",
        &["src/dns/cookie i04_a_cookie_is_renewed_when_it_is_old_ahead_or_another_ones",
          "src/dns/cookie i04_cookies_are_those_of_rfc_9018",
          "src/dns/edns i04_cookies_have_eight_octets_or_sixteen_to_forty",
          "src/serve/dispatch/tests/edns i04_cookie_lengths_and_a_cookie_without_a_question"], ""),
    ("I5", "ANY is one set", &["src/serve/dispatch/tests/edns i05_any_is_one_rrset"], ""),
    ("I6", "a zone without a version",
        &["src/serve/dispatch/tests/edns i06_a_zone_without_version_is_servfail_with_ede_14_on_queries_and_transfers"], ""),
    ("J1", "killed at each write, sync and rename: what was announced is there, no serial comes again",
        &["src/zone/journal/tests/power j1_j5_a_kill_at_any_call_costs_nothing_announced",
          "tests/crash two_hundred_kills_break_no_promise"], ""),
    ("J2", "power lost: writes without a sync are dropped, torn, out of order",
        &["src/zone/journal/tests/power j2_power_lost_at_a_thousand_points_costs_nothing_announced"], ""),
    ("J3", "a torn end, a flipped bit",
        &["src/zone/journal/tests/damage a_damaged_log_gives_a_sound_older_version_and_no_serial_again",
          "tests/crash_damage a_store_damaged_after_a_kill_starts_above_what_was_announced"], ""),
    ("J4", "a full disk, and room again",
        &["src/zone/journal/tests/damage a_full_disk_refuses_commits_and_they_work_again_when_space_returns"], ""),
    ("J5", "a crash in each step of tidying up",
        &["src/zone/journal/tests/power j1_j5_a_kill_at_any_call_costs_nothing_announced",
          "src/zone/journal/tests a_snapshot_that_was_broken_off_at_any_portion_costs_nothing"], ""),
    ("J6", "after a restart each kept version leads on as before",
        &["src/zone/journal/tests every_kept_version_can_be_read_back",
          "src/zone/journal/tests a_store_opened_again_gives_the_same_versions_and_steps",
          "tests/crash_restart j6_after_a_restart_increments_are_the_same_octets"], ""),
    ("J7", "limits by number, octets and age",
        &["src/zone/journal/tests history_is_cut_at_its_oldest_end_and_stays_linked",
          "src/zone/journal/tests history_is_cut_by_octets_and_by_age"], ""),
    ("J8", "a store of another layout",
        &["src/zone/journal/tests a_folder_of_another_layout_is_refused"], ""),
    ("K1", "random changes into all five, over TCP, with TSIG and TLS",
        &["tests/soak k1_k2_k3_secondaries_follow_while_everything_is_killed",
          "tests/interop five_secondaries_follow_two_hundred_random_changes_by_ixfr"], ""),
    ("K2", "secondaries killed at random",
        &["tests/soak k1_k2_k3_secondaries_follow_while_everything_is_killed"], ""),
    ("K3", "the primary killed at random: nobody is ever ahead of it",
        &["tests/soak k1_k2_k3_secondaries_follow_while_everything_is_killed"], ""),
    ("K4", "clocks that step",
        &["tests/interop_steps k4_a_clock_that_is_off_is_said_and_recovered_from"], ""),
];

/// All Rust files below `src` and `tests`.
fn files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![PathBuf::from("src"), PathBuf::from("tests")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the folder can be read") {
            let path = entry.expect("the folder can be read").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files
}

/// The names of the tests in a text: functions right below `#[test]` or `#[tokio::test]`, and those in
/// `proptest!`, with their attributes in between.
fn tests_of(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim_start) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if let Some(rest) = line
            .strip_prefix("async fn ")
            .or_else(|| line.strip_prefix("fn "))
        {
            if std::mem::take(&mut is_test) {
                let end = rest.find(['(', '<']).unwrap_or(rest.len());
                names.insert(rest[..end].to_owned());
            }
        } else if !line.starts_with("#[") && !line.starts_with("//") {
            is_test = false;
        }
    }
    names
}

/// The ids a test's name begins with: `b2_b13_b17_differences…` has three.
fn ids_of(name: &str) -> Vec<String> {
    let parse = |part: &str| {
        let mut letters = part.chars();
        let letter = letters.next()?.to_ascii_uppercase();
        let number: usize = letters.as_str().parse().ok()?;
        let (_, count) = COUNTS.iter().find(|(known, _)| *known == letter)?;
        (1..=*count)
            .contains(&number)
            .then(|| format!("{letter}{number}"))
    };
    name.split('_').map_while(parse).collect()
}

/// What is wrong with a list, given the tests of each file.
fn faults(cases: &[Case], tests: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let mut faults = Vec::new();
    let listed: Vec<&str> = cases.iter().map(|case| case.0).collect();
    let wanted: Vec<String> = COUNTS
        .iter()
        .flat_map(|(letter, count)| (1..=*count).map(move |number| format!("{letter}{number}")))
        .collect();
    if listed != wanted {
        faults.push(format!("the ids are {listed:?}, not {wanted:?}"));
    }
    let mut shown: BTreeSet<(&str, &str)> = BTreeSet::new();
    for (id, what, by, reason) in cases {
        if what.is_empty() || (by.is_empty() && reason.is_empty()) {
            faults.push(format!("{id}: neither a test nor a reason"));
        }
        for place in *by {
            let (file, name) = place.split_once(' ').expect("a file and a name");
            shown.insert((id, name));
            if !tests.get(file).is_some_and(|names| names.contains(name)) {
                faults.push(format!("{id}: there is no test {name} in {file}.rs"));
            }
        }
    }
    for (file, names) in tests {
        for name in names {
            for id in ids_of(name) {
                if !shown.contains(&(id.as_str(), name.as_str())) {
                    faults.push(format!("{id}: {name} in {file}.rs is not listed"));
                }
            }
        }
    }
    faults
}

/// The tests of all files.
fn all_tests() -> BTreeMap<String, BTreeSet<String>> {
    files()
        .iter()
        .map(|file: &PathBuf| {
            let text = fs::read_to_string(file).expect("the file can be read");
            let name = Path::with_extension(file, "");
            (name.to_string_lossy().into_owned(), tests_of(&text))
        })
        .collect()
}

#[test]
fn every_case_has_its_tests_or_a_reason() {
    let found = faults(CASES, &all_tests());
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn the_hardest_cases_all_run() {
    let without: Vec<&str> = HARDEST
        .iter()
        .copied()
        .filter(|id| CASES.iter().any(|case| case.0 == *id && case.2.is_empty()))
        .collect();
    assert_eq!(without, ["B21"], "it needs DNSSEC, as H4 needs ZONEMD");
}

/// The check itself: a case left out, a test renamed, a test not listed.
#[test]
fn a_list_with_faults_is_not_passed() {
    let tests = all_tests();
    let mut cases = CASES.to_vec();
    cases.remove(3);
    assert!(faults(&cases, &tests)[0].starts_with("the ids are"));
    let mut cases = CASES.to_vec();
    cases[0].2 = &["tests/transfer_list of_another_name"];
    let found = faults(&cases, &tests);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("there is no test"), "{found:?}");
    assert!(found[1].contains("is not listed"), "{found:?}");
    assert_eq!(ids_of("b2_b13_of"), ["B2", "B13"]);
    assert_eq!(ids_of("f05_x_b2"), ["F5"]);
    assert!(ids_of("s78_a_transfer").is_empty() && ids_of("a19_x").is_empty());
}
