"""Which scripts of tlsfuzzer are run against Encke, how, and what is known not to hold."""

# Why scripts are left out, with their names.
LEFT_OUT = [
    ("clients show no certificates", """
        certificate_malformed certificate_request certificate_verify certificate_verify_malformed
        certificate_verify_malformed_sig dsa_in_certificate_verify ecdsa_in_certificate_verify
        eddsa_in_certificate_verify extended_master_secret_extension_with_client_cert
        renegotiation_disabled_client_cert rsa_pss_sigs_on_certificate_verify
        rsa_sigs_on_certificate_verify tls13_certificate_request tls13_certificate_verify
        tls13_client_certificate_compression tls13_ecdsa_brainpool_in_certificate_verify
        tls13_ecdsa_in_certificate_verify tls13_eddsa_in_certificate_verify
        tls13_mldsa_in_certificate_verify tls13_post_handshake_auth"""),
    ("fits no hello but its own, for RSA as key exchange", "extensions"),
    ("tries weak ciphers beside others that are not spoken", "export_ciphers_rejected"),
    ("no key exchange by RSA alone", """
        bleichenbacher_timing_marvin bleichenbacher_timing_pregenerate bleichenbacher_workaround
        invalid_rsa_key_exchange_messages truncating_of_kRSA_client_key_exchange"""),
    ("no groups but X25519 and P-256", """
        dhe_key_share_random dhe_no_shared_secret_padding dhe_rsa_key_exchange
        dhe_rsa_key_exchange_signatures dhe_rsa_key_exchange_with_bad_messages ffdhe_expected_params
        ffdhe_negotiation tls13_ffdhe_groups tls13_ffdhe_sanity tls13_ecdhe_brainpool_curves
        tls13_mlkem"""),
    ("no cipher but AES-128-GCM: no padding, no MAC beside it", """
        SSLv3_padding aesccm atypical_padding chacha20 cve_2016_2107 cve_2016_7054 encrypt_then_mac
        encrypt_then_mac_renegotiation fuzzed_MAC fuzzed_padding fuzzed_plaintext lucky13"""),
    ("no tickets, sessions or shared keys", """
        session_ticket_resumption tls13_psk_dhe_ke tls13_psk_ke tls13_session_resumption
        invalid_server_name_extension_resumption"""),
    ("an extension that is not spoken", """
        heartbeat ocsp_stapling record_size_limit tls13_certificate_compression"""),
    ("wants a server that sends back what it gets", "lengths tls13_lengths"),
    ("wants a server of one version", "TLSv1_2_rejected_without_TLSv1_2 tls13_non_support"),
    ("wants a key of another kind: DSA, RSA-PSS", "dsa_sig_flexibility tls13_rsapss_signatures"),
    ("measures time, for days", "tls13_minerva"),
]
LEFT_OUT = [(why, names.split()) for why, names in LEFT_OUT]

SUITE = {
    "rsa": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "ecdsa": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
}

# TLS 1.2, with an option for elliptic curves or for the suite.
WITH_CURVES = """
    aes_gcm_nonces alpn_negotiation ccs client_compatibility client_hello_max_size connection_abort
    conversation cve_2004_0079 cve_2016_6309 downgrade_protection early_application_data
    extended_master_secret_extension fallback_scsv fuzzed_ciphertext
    hello_request_by_client interleaved_CKE_with_CCS
    interleaved_application_data_and_fragmented_handshakes_in_renegotiation
    interleaved_application_data_in_renegotiation invalid_client_hello_w_record_overflow
    invalid_compression_methods invalid_content_type invalid_server_name_extension large_hello
    large_number_of_extensions legacy_renegotiation message_skipping no_heartbeat
    no_mlkem_in_old_tls point_extension record_layer_fragmentation renegotiation_changed_clienthello
    renegotiation_disabled resumption_with_wrong_ciphers sessionID_resumption
    sig_algs_renegotiation_resumption ssl_death_alert sslv2hello_protocol truncating_of_client_hello
    version_numbers zero_length_data tls13_version_negotiation""".split()

# TLS 1.2, for RSA as its key exchange or without the extensions that curves take.
WITHOUT = """
    clienthello_md5 ecdhe_padded_shared_secret ecdhe_rsa_key_exchange
    ecdhe_rsa_key_exchange_with_bad_messages ecdhe_rsa_key_share_random empty_extensions
    fuzzed_finished invalid_cipher_suites invalid_client_hello invalid_session_id invalid_version
    message_duplication openssl_3712 serverhello_random sig_algs signature_algorithms
    sslv2_connection sslv2_force_cipher sslv2_force_cipher_3des sslv2_force_cipher_non3des
    sslv2_force_export_cipher truncating_of_finished unsupported_curve_fallback x25519""".split()

TLS13 = """
    0rtt_garbage ccs connection_abort conversation count_tickets crfg_curves
    dhe_shared_secret_padding ecdhe_curves eddsa empty_alert finished finished_plaintext hrr
    invalid_ciphers keyshare_omitted keyupdate keyupdate_from_server large_number_of_extensions
    legacy_version multiple_ccs_messages no_unknown_groups nociphers obsolete_curves pkcs_signature
    record_layer_limits record_padding rsa_signatures serverhello_random shuffled_extentions
    signature_algorithms symetric_ciphers unencrypted_alert unrecognised_groups zero_content_type
    zero_length_data""".split()

ARGUMENTS = {
    # Known extensions that may not be empty, and one that must be the last.
    "tls13_large_number_of_extensions": "--exc 5 --exc 9 --exc 11 --exc 12 --exc 17 --exc 23 "
    "--exc 27 --exc 34 --exc 35 --exc 41 --exc 13172",
}


def job(name, kind, options, adapt):
    return name, kind, options + ARGUMENTS.get(name, "").split(), adapt


JOBS = [job(name, "rsa", [], 1) for name in WITH_CURVES]
JOBS += [job(name, "rsa", [], 2) for name in WITHOUT]
JOBS += [job(f"tls13_{name}", "rsa", [], 0) for name in TLS13]
JOBS += [
    job("ecdsa_sig_flexibility", "ecdsa", ["-C", SUITE["ecdsa"]], 0),
    job("tls13_ecdsa_support", "ecdsa", [], 0),
    job("conversation", "ecdsa", [], 1),
    job("connection_abort", "ecdsa", [], 1),
    job("fuzzed_ciphertext", "ecdsa", ["-C", SUITE["ecdsa"]], 0),
    job("signature_algorithms", "ecdsa", ["--ecdsa"], 2),
    job("tls13_conversation", "ecdsa", [], 0),
]

ANY = ".*"

ALERT = "rustls refuses by another alert"
# Of the handshake alone: the rest is not rustls'.
ALERTED = "ccs|fallback_scsv|invalid_client_hello.*|invalid_server_name_extension|no_heartbeat|"
ALERTED += "resumption_.*|message_duplication|tls13_(crfg|ecdhe|obsolete)_curves|tls13_finished.*|"
ALERTED += "tls13_keyshare_omitted"
BIG = "client_hello_max_size|large_.*|record_layer_.*|truncating_.*|.*signature_algorithms"
LEGACY = "tls13_(legacy_version|obsolete_curves|shuffled_extentions|pkcs_.*|rsa_.*|eddsa)"
EMPTY = "large_hello|tls13_large_number_of_extensions|tls13_shuffled_extentions"
RESUMED = "no session is resumed, and no ticket given"
LENIENT = "rustls takes what it need not look at: old fields, what is not chosen, a second hello"
RENEGOTIATED = "renegotiation is refused: a warning, and the end"
SSL2 = "SSL 2.0 is no TLS: closed without an alert"
SUITES = "no such suite"

# Failures that are known: why, then the script, the conversation and the error, as patterns.
KNOWN = [
    (RENEGOTIATED, ANY, ANY, "no_renegotiation"),
    (RENEGOTIATED, "renegotiation_disabled", "try", "closure"),
    (RENEGOTIATED, "interleaved_application_data_and_.*",
     "Client Hello", "closure"),
    (RESUMED, ANY, "resum", ANY),
    (RESUMED, "tls13_connection_abort", "NewSession", ANY),
    (RESUMED, "tls13_keyupdate_from_server", ANY, "Data"),
    (SUITES, ANY, "(?i)aes.256|chacha20|_CCM_|sha384|w/DHE", "handshake_failure"),
    (SUITES, "aes_gcm_nonces", "aes-256", ANY),
    (SUITES, "client_compatibility", ANY, "handshake_failure"),
    (SUITES, "tls13_0rtt_garbage", "downgrade to TLS 1.2", "handshake_failure"),
    ("no version before 1.2", ANY, "TLSv1.1|to 1.1", "protocol_version|handshake_failure"),
    ("no version before 1.2", "downgrade_protection", r"\(3, [12]\)", "protocol_version"),
    ("no version before 1.2", "ecdhe_.*|serverhello_random", "Protocol", "protocol_version"),
    (SSL2, ANY, "SSLv2|SSL 2.0", "closure"),
    (SSL2, "client_compatibility", "IE 6|Java 6", "closure"),
    ("no such group", ANY, "x448|secp384r1|secp521r1|ffdhe", "handshake_failure"),
    ("no such group", "unsupported_curve_fallback", ANY, "handshake_failure"),
    ("no such group", "x25519", "unknown group|x448|fallback|DHE", "handshake_failure"),
    ("a hello without groups, which adapt.py gives groups", "x25519", "when no", "."),
    ("no signature by SHA-1, MD5 or RSA-PSS' own keys, no key but P-256", ANY,
     "(?i)sha-?1|sha224|rsa_pss_pss|sha384|sha512|brainpool|ed25519|ed448|without sig",
     "handshake_failure"),
    ("no signature by SHA-1, MD5 or RSA-PSS' own keys, no key but P-256", "clienthello_md5", ANY,
     "handshake_failure"),
    ("a hello of more than 64 KiB is refused", BIG,
     "max|big|huge|ext|ciphers|32[67]|duplicated|tolerance|invalid", "closure|decode_error"),
    ("an empty extension of a known type is no such extension",
     EMPTY, "ext", "decode_error"),
    ("names: several are refused, an unknown one gets the first certificate (RFC 6066 allows it)",
     "invalid_server_name_extension", "SNI", "illegal_parameter|server_hello"),
    ("point formats are not said, which means uncompressed (RFC 8422, 5.2)", "point_extension",
     "uncompressed", "ec_point_formats"),
    ("several changes of cipher are dropped as one is (RFC 8446, 5)", "tls13_multiple_ccs_messages",
     ANY, "Timeout"),
    ("a key update is answered once, with the next data (RFC 8446, 4.6.3)", "tls13_keyupdate",
     "multiple|app data split", "ApplicationData|Timeout"),
    ("a key update in two records is refused, and the script writes on", "tls13_keyupdate",
     "fragment", "closure|unexpected_message"),
    ("early data that is refused is skipped up to 16 KB of sealed bytes", "tls13_0rtt_garbage",
     "0-RTT", "bad_record_mac|closure"),
    (LENIENT, LEGACY, ANY, "server_hello"),
    (LENIENT, "legacy_renegotiation|tls13_signature_algorithms|tls13_ecdsa_support", ANY,
     "server_hello"),
    ("rustls takes a record of up to 16,640 bytes that is not sealed",
     ".*record_layer_.*", "over|big ClientHello", "server_hello"),
    ("rustls has no alert for an inner type of zero", "tls13_zero_content_type", "handshake",
     "closure"),
    (ALERT, ALERTED, ANY, "Expected alert description .* does not match"),
    (ALERT, "tls13_empty_alert", "handshake keys", "does not match"),
    (ALERT, "tls13_record_layer_limits", "Finished", "does not match"),
    ("the script fails by itself", "message_skipping", "skip Client Hello", "AttributeError"),
]

# What the API's port, which is rustls' own, does otherwise.
KNOWN_AT_API = [
    ("rustls has no alert for data within a handshake",
     "tls13_zero_length_data|cve_2004_0079|.*CKE.*", ANY, "closure"),
    ("what is no handshake is answered in plain HTTP", ANY, "SSLv2|SSL 2.0", "record layer header"),
    (ALERT, ANY, ANY, "does not match"),
]
