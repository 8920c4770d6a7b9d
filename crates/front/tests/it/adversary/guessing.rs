//! Guessing a key from as many addresses as one machine has.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::time::timeout;

use crate::support::House;
use testkit::HANG_TIMEOUT;

/// What a caller with this address and key is answered.
async fn status(from: Ipv4Addr, server: SocketAddr, key: &str) -> u16 {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    let mut stream = socket.connect(server).await.unwrap();
    let text = format!("GET /v1/models HTTP/1.1\r\nhost: localhost\r\nx-api-key: {key}\r\nconnection: close\r\n\r\n");
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = String::new();
    timeout(HANG_TIMEOUT, stream.read_to_string(&mut answer)).await.expect("an answer comes").unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn many_loopback_addresses_guess_no_faster_than_one() {
    let house = House::open().await;
    let server = house.operator.address;
    let mut refused = 0;
    for number in 0..1500_u32 {
        let from = Ipv4Addr::from_bits(Ipv4Addr::new(127, 1, 0, 1).to_bits() + number * 37);
        match status(from, server, &format!("{number:04}")).await {
            401 => {}
            429 => refused += 1,
            other => panic!("{other}"),
        }
    }
    // Twenty at once, and one more every three seconds: how many those are depends on the machine.
    assert!(refused > 1000, "only {refused} of 1500 guesses were refused");
    assert_eq!(status(Ipv4Addr::LOCALHOST, server, &house.operator.key).await, 200, "a real key is never locked out");
    house.stop().await;
}
