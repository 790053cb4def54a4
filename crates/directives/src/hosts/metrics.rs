//! The metrics of `hosts`.

ops::declare_metrics! {
    pub(crate),
    ENTRIES Gauge "coredns_hosts_entries" ["hostsfile"] "Addresses and names of the hosts file and of lines in the Corefile";
    RELOAD_TIMESTAMP Gauge "coredns_hosts_reload_timestamp_seconds" [] "Time at which the hosts file that was read last had changed, in seconds since 1970";
}
